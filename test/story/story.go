package story

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

// The cast.
const (
	// Nodes is the number of nodes the story needs.
	Nodes = 20
	// maxUnavailable is 10% of them, the default.
	maxUnavailable = 2

	namespace   = "kube-system"
	grName      = "enflame-gcu-resource"
	driverName  = "enflame-gcu-driver"
	toolkitName = "enflame-gcu-docker-plugin"
	blueprint   = "examples/gcu-resource-driver.json"
	policy      = "test/story/upgrade-policy.yaml"
	policyName  = "demo"
	nameLabel   = "app.kubernetes.io/name"
	otaNode     = "node-0007"
	training    = "test/story/training.yaml"
	// driverBefore is the driver version that is loaded on the simulated hosts.
	driverBefore = "1.0.0"

	chapterTimeout = 4 * time.Minute
)

var offlineNodes = []string{"node-0003", "node-0011", "node-0018"}

// Story is the scenario and its state.
type Story struct {
	cluster  *harness.Cluster
	narrator *Narrator
	observer *harness.Observer
	manager  *harness.Process
	agents   *harness.Agents
	// trained is the pod of the training before the upgrade, and requested when that was asked for.
	trained   string
	requested time.Time
}

// New returns the story for a running cluster with Nodes nodes.
func New(cluster *harness.Cluster, narrator *Narrator) *Story {
	return &Story{cluster: cluster, narrator: narrator}
}

// Programs returns the programs that the story started.
func (s *Story) Programs() []*harness.Process {
	var started []*harness.Process
	if s.manager != nil {
		started = append(started, s.manager)
	}
	return append(started, s.agents.Processes()...)
}

// Stop stops the programs that the story started.
func (s *Story) Stop() error {
	var errs []error
	if s.manager != nil {
		errs = append(errs, s.manager.Stop())
	}
	return errors.Join(append(errs, s.agents.Stop())...)
}

// Tell runs the story; an error names the chapter that failed.
func (s *Story) Tell(ctx context.Context) error {
	chapters := []struct {
		name string
		tell func(context.Context) error
	}{
		{"install", s.install},
		{"deploy", s.deploy},
		{"annotate", s.annotate},
		{"upgrade while nodes are offline", s.upgradePastOffline},
		{"bring the nodes back", s.bringBack},
		{"start a training", s.startTraining},
		{"switch to OTA", s.switchToOTA},
		{"upgrade one node", s.upgradeOneNode},
		{"check the metrics", s.metrics},
	}
	for _, c := range chapters {
		if err := c.tell(ctx); err != nil {
			return fmt.Errorf("chapter %q: %w", c.name, err)
		}
	}
	return nil
}

// show runs kubectl and prints the command and its output.
func (s *Story) show(ctx context.Context, args ...string) error {
	output, err := s.cluster.Kubectl(ctx, args...)
	s.narrator.command("kubectl "+quoted(args), output)
	return err
}

// quoted joins arguments, quoted for a shell.
func quoted(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = a
		if strings.ContainsAny(a, " {}\"*|$[]()?") {
			words[i] = "'" + a + "'"
		}
	}
	return strings.Join(words, " ")
}

func (s *Story) install(ctx context.Context) error {
	s.narrator.chapter("Install the operator: CRDs and roles, and with only those rights a manager and a node agent per node")
	for _, folder := range []string{"config/crd", "config/rbac"} {
		if err := s.show(ctx, "apply", "--server-side", "-k", folder); err != nil {
			return err
		}
	}
	if err := s.cluster.Install(ctx); err != nil {
		return err
	}
	var err error
	if s.observer, err = harness.Observe(ctx, s.cluster, nameLabel); err != nil {
		return err
	}
	if s.manager, err = s.cluster.StartManager(ctx); err != nil {
		return err
	}
	s.narrator.says("the manager is ready (its log: %s)", s.manager.Log)
	nodes := make([]string, Nodes)
	for i := range nodes {
		nodes[i] = fmt.Sprintf("node-%04d", i+1)
	}
	if s.agents, err = s.cluster.StartAgents(ctx, driverBefore, nodes...); err != nil {
		return err
	}
	s.narrator.says("%d node agents are serving, each with the simulated host of its node", len(s.agents.Processes()))
	return nil
}

func (s *Story) deploy(ctx context.Context) error {
	s.narrator.chapter("Deploy the GCU software: six components, each once the previous one is Running")
	if err := s.show(ctx, "create", "-f", blueprint); err != nil {
		return err
	}
	if err := s.show(ctx, "wait", "--for=jsonpath={.status.phase}=Running", "gr/"+grName, "--timeout=120s"); err != nil {
		return err
	}
	if err := s.show(ctx, "get", "gr"); err != nil {
		return err
	}
	ready, err := s.cluster.Kubectl(ctx, "get", "gr", grName, "-o", "jsonpath={.status.readyResource}")
	if err != nil {
		return err
	}
	if ready != "6/6" {
		return fmt.Errorf("READY is %q, expected 6/6", ready)
	}
	return s.show(ctx, "get", "daemonsets", "-n", namespace)
}

func (s *Story) annotate(ctx context.Context) error {
	s.narrator.chapter("Set the upgrade strategy: node by node, 10%% of the nodes at a time (the default)")
	if err := s.show(ctx, "create", "-f", policy); err != nil {
		return err
	}
	if err := s.show(ctx, "annotate", "gr", grName, topsv1.AnnotationUpdateStrategy+"=AdvancedRollingUpdate", topsv1.AnnotationUpgradePolicy+"="+policyName); err != nil {
		return err
	}
	return s.follow(ctx, func(r *topsv1.DaemonRollout) bool { return r.Status.Updated == Nodes })
}

// change changes fields of the spec of the gr, given as JSON.
func (s *Story) change(ctx context.Context, fields string) error {
	return s.show(ctx, "patch", "gr", grName, "--type=merge", "-p", `{"spec":`+fields+`}`)
}

func (s *Story) upgradePastOffline(ctx context.Context) error {
	s.narrator.chapter("Three nodes go offline: their leases expire and they become NotReady")
	if err := s.agents.Freeze(offlineNodes...); err != nil {
		return err
	}
	output, err := s.cluster.NodesOff(ctx, offlineNodes...)
	s.narrator.command("testcluster node-off "+strings.Join(offlineNodes, " "), output)
	if err != nil {
		return err
	}
	before, err := s.driverTarget(ctx, "")
	if err != nil {
		return err
	}
	s.observer.Reset()
	s.narrator.chapter("A new driver version: 17 nodes can be upgraded, 3 are offline")
	if err := s.change(ctx, `{"driver":{"version":"1.1.0"}}`); err != nil {
		return err
	}
	target, err := s.driverTarget(ctx, before)
	if err != nil {
		return err
	}
	reachable := int32(Nodes - len(offlineNodes))
	err = s.follow(ctx, func(r *topsv1.DaemonRollout) bool {
		return r.Status.Updated == reachable && r.Status.SkippedNodes == int32(len(offlineNodes)) && r.Status.InFlightNodes == 0
	})
	if err != nil {
		return err
	}
	if err := s.show(ctx, "get", "dro", "-n", namespace, grName); err != nil {
		return err
	}
	if err := s.show(ctx, "get", "dro", "-n", namespace, grName, "-o",
		`jsonpath={range .status.skipped[*]}{.node}{"  "}{.reason}{" since "}{.since}{": "}{.message}{"\n"}{end}`); err != nil {
		return err
	}
	pods, err := s.driverPods(ctx)
	if err != nil {
		return err
	}
	for _, node := range offlineNodes {
		if pod := pods[node]; pod.DeletionTimestamp != nil || slices.Contains(nodesAt(pods, target), node) {
			return fmt.Errorf("the pod of offline node %s was touched", node)
		}
	}
	s.narrator.says("17 nodes done; the pods of the 3 offline nodes were not touched")
	return s.withinBudget()
}

// withinBudget compares the observed outages with the budget.
func (s *Story) withinBudget() error {
	if most := s.observer.Most(); most > maxUnavailable {
		return fmt.Errorf("an independent watcher saw %d nodes down at once, at most %d are allowed", most, maxUnavailable)
	}
	s.narrator.says("an independent watcher counted %d replaced pods, and at most %d nodes down at once (allowed: %d)",
		s.observer.Replaced(), s.observer.Most(), maxUnavailable)
	return nil
}

func (s *Story) bringBack(ctx context.Context) error {
	s.narrator.chapter("The three nodes come back and are upgraded automatically")
	s.observer.Reset()
	if err := s.agents.Thaw(offlineNodes...); err != nil {
		return err
	}
	output, err := s.cluster.NodesOn(ctx, offlineNodes...)
	s.narrator.command("testcluster node-on "+strings.Join(offlineNodes, " "), output)
	if err != nil {
		return err
	}
	err = s.follow(ctx, func(r *topsv1.DaemonRollout) bool { return r.Status.Updated == Nodes && r.Status.InFlightNodes == 0 })
	if err != nil {
		return err
	}
	if err := s.withinBudget(); err != nil {
		return err
	}
	return s.show(ctx, "get", "gr")
}

func (s *Story) metrics(ctx context.Context) error {
	s.narrator.chapter("The metrics of the manager")
	output, err := exec.CommandContext(ctx, "curl", "-sS", "--fail", s.manager.URL+"/metrics").Output()
	if err != nil {
		return fmt.Errorf("reading the metrics: %w", err)
	}
	var lines []string
	for line := range strings.Lines(string(output)) {
		if strings.HasPrefix(line, "gcu_rollout_") || strings.HasPrefix(line, "gcu_node_upgrade_tasks_total") {
			lines = append(lines, line)
		}
	}
	s.narrator.command("curl -s "+s.manager.URL+"/metrics | grep -e ^gcu_rollout_ -e ^gcu_node_upgrade_tasks_total", strings.Join(lines, ""))
	for _, want := range []string{
		`gcu_rollout_nodes{rollout="` + grName + `",state="updated"} 1`,
		`gcu_rollout_nodes{rollout="` + grName + `",state="held"} 19`,
		`gcu_rollout_max_unavailable{rollout="` + grName + `"} 2`,
	} {
		if !slices.Contains(lines, want+"\n") {
			return fmt.Errorf("the metrics lack %s", want)
		}
	}
	for target, operations := range map[string]int{"driver": Nodes + 1, "toolkit": 1} {
		replaced := fmt.Sprintf(`gcu_node_upgrade_tasks_total{action="replace",result="success",target=%q} %d`, target, operations)
		if !slices.Contains(lines, replaced+"\n") {
			return fmt.Errorf("the metrics lack %s, one per upgraded node", replaced)
		}
	}
	return nil
}
