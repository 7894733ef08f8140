package nodes

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// personUpgrades: under OTA a person at a node posts to its agent, and everything outdated there is
// upgraded, driver and toolkit: training is drained, the restart of docker kills the agent, the cards
// are verified and the node is returned to service. No other node is touched.
func (s *stage) personUpgrades(node, driver, toolkit string) {
	s.t.Helper()
	s.eventually("driver and toolkit can be upgraded", func() error {
		for _, set := range []string{driverSet, toolkitSet} {
			if pod := s.podOn(set, node); pod == nil || needUpgrade(pod) != corev1.ConditionTrue {
				return fmt.Errorf("%s cannot: %+v", set, pod)
			}
		}
		return nil
	})
	training := s.trainingOn(node)
	token, remove := s.account("scraper", "gcu-metrics-reader")
	defer remove()
	before, docker := s.counted(token), map[string]engine{node: s.engine(node, "docker")}
	accepted := s.askAgent(node, "upgrade", "--request", "POST")
	s.emptyWhenRestarted(docker)
	s.eventually("the node has the new driver", func() error { return s.driverIs(driver, node) })
	s.eventually("the node has the new toolkit", func() error { return s.toolkitIs(toolkit, node) })
	s.eventually("all cards are used again", s.trains)
	s.eventually("the agent says that it is done", func() error {
		if now := s.askAgent(node, "operations/"+accepted.ID); now.State != request.Done {
			return fmt.Errorf("it says %+v", now)
		}
		return nil
	})
	for _, old := range training {
		for _, pod := range s.trainingOn(node) {
			if pod.UID == old.UID {
				s.t.Errorf("pod %s was not evicted", pod.Name)
			}
		}
	}
	for _, other := range allNodes {
		if other != node {
			check(s.t, s.runs(driverSet, other, "latest"))
			check(s.t, s.runs(toolkitSet, other, "latest"))
		}
	}
	s.eventually("the metrics count it", func() error {
		for what, now := range s.counted(token) {
			if now <= before[what] {
				return fmt.Errorf("%g %s were counted before, and %g now", before[what], what, now)
			}
		}
		return nil
	})
	s.measuresCards(node)
}

// askAgent calls the API of a node's agent through its socket.
func (s *stage) askAgent(node, path string, options ...string) response.Operation {
	s.t.Helper()
	argv := append([]string{"curl", "--silent", "--fail-with-body", "--unix-socket", otaSocket}, options...)
	answer := s.on(node, append(argv, "http://localhost/v1/"+path)...)
	var operation response.Operation
	if err := json.Unmarshal([]byte(answer), &operation); err != nil || operation.ID == "" {
		s.t.Fatalf("the agent of %s answers %q: %v", node, answer, err)
	}
	return operation
}

// counted are the manager's metrics of what a person's request leads to.
func (s *stage) counted(token string) map[string]float64 {
	s.t.Helper()
	metrics := s.metrics(token)
	return map[string]float64{
		"restarts of docker": sum(metrics, "gcu_runtime_restarts_total", `runtime="docker"`, `result="success"`),
		"requests":           sum(metrics, "gcu_rollout_request_wait_seconds_count"),
		"drivers":            sum(metrics, "gcu_node_upgrade_tasks_total", `target="driver"`, `action="replace"`, `result="success"`),
	}
}

// metrics scrapes the manager as the documentation tells Prometheus to: over TLS, with the token of an
// account that has the role.
func (s *stage) metrics(token string) string {
	s.t.Helper()
	const service = "gcu-operator-metrics." + system + ".svc:8443"
	return s.on(victims[0], "curl", "--silent", "--show-error", "--fail", "--cacert", s.trusts(victims[0]),
		"--resolve", service+":"+s.managerAddress(), "--header", "Authorization: Bearer "+token, "https://"+service+"/metrics")
}

// sum adds up the series of a metric that have all labels.
func sum(metrics, name string, labels ...string) (total float64) {
	for line := range strings.Lines(metrics) {
		series, number, _ := strings.Cut(strings.TrimSpace(line), "} ")
		value, err := strconv.ParseFloat(number, 64)
		missing := func(label string) bool { return !strings.Contains(series, label) }
		if err == nil && strings.HasPrefix(series, name+"{") && !slices.ContainsFunc(labels, missing) {
			total += value
		}
	}
	return total
}
