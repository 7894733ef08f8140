package nodes

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/guide"
)

const (
	// deskLabel is the node label in examples/rest-api for the node with the blueprints.
	deskLabel      = "node-restriction.kubernetes.io/gcu-upgrade-manager"
	blueprints     = "/topsdata/dcp/gcu-upgrade-manager/blueprints"
	requestLog     = "/topsdata/dcp/gcu-upgrade-manager/op-log/gcu-upgrade-manager.log"
	grBlueprint    = "examples/gcu-resource-driver.json"
	upgradeAPIPort = "32765"
)

// restAPI: the manager of examples/rest-api reads the blueprints of its node, and a
// person at another node upgrades and deletes the gr with the commands of the
// gcu-upgrade-manager guide.
func (s *stage) restAPI() {
	s.kubectl("create", "-f", grBlueprint)
	s.eventually("the gr shows 6/6 Running", func() error { return s.isRunning("6/6") })
	s.requiresAuthentication()
	const desk, person = "real-2", "real-1"
	s.kubectl("label", "node", desk, deskLabel+"=here")
	s.kubectl("apply", "--server-side", "--force-conflicts", "-k", "examples/rest-api")
	s.letAgentsRestartEngines()
	s.kubectl("rollout", "status", "deployment/gcu-operator", "--namespace="+system, "--timeout=2m")
	s.eventually("one manager is left, on the desk", func() error {
		if pods := s.pods(system, nameLabel, "gcu-operator"); len(pods) != 1 || pods[0].Spec.NodeName != desk {
			return fmt.Errorf("there are %d", len(pods))
		}
		return nil
	})
	s.says(person, guide.List, guide.Get, guide.Driver)
	s.upgradedInPlace(desk, person)
	s.foregroundDeletion(person)
	s.logged(desk)
}

// curl runs a command of the guide on a node. It calls the manager directly, because
// there is no kube-proxy to forward the NodePort.
func (s *stage) curl(node, line string) string {
	s.t.Helper()
	return s.on(node, "sh", "-c", strings.Replace(line, "<node-ip>", s.managerAddress(), 1)+" --silent")
}

func (s *stage) managerAddress() string {
	s.t.Helper()
	return s.managerPod().Status.PodIP
}

// says runs commands of the guide on a node; the output must be as printed there.
func (s *stage) says(node string, lines ...guide.Line) {
	s.t.Helper()
	for _, line := range lines {
		if output := s.curl(node, line.Command); line.Missing(output) != "" {
			s.t.Errorf("%s: no %q in\n%s", line.Command, line.Missing(output), output)
		}
	}
}

// requiresAuthentication: with the shipped configuration, requests must be authenticated.
func (s *stage) requiresAuthentication() {
	s.t.Helper()
	token, remove := s.account("upgrade-desk", "view")
	defer remove()
	trust := s.trusts("real-1")
	const list, name = "/gum/v1/gr", "gcu-upgrade-manager." + system + ".svc:" + upgradeAPIPort
	for _, tt := range []struct {
		name, token, path string
		more              []string
		code, says        string
	}{
		{"without a token", "", list, nil, "401", `"result": "Failed"`},
		{"with an invalid token", "nobody", list, nil, "401", "the bearer token is not valid"},
		{"with the token of an account that may read", token, list, nil, "200", `"name": "` + grName + `"`},
		{"but may not delete", token, list + "/" + grName, []string{"--request", "DELETE"}, "403", "cannot delete"},
	} {
		argv := []string{"curl", "--silent", "--show-error", "--cacert", trust, "--resolve", name + ":" + s.managerAddress(), "--write-out", "\n%{http_code}", "https://" + name + tt.path}
		if tt.token != "" {
			argv = append(argv, "--header", "Authorization: Bearer "+tt.token)
		}
		output := s.on("real-1", append(argv, tt.more...)...)
		if !strings.HasSuffix(output, "\n"+tt.code) || !strings.Contains(output, tt.says) {
			s.t.Errorf("%s: no %s, %q in %.500s", tt.name, tt.code, tt.says, output)
		}
	}
}

// account makes a ServiceAccount with a ClusterRole, and returns a token of it and what removes it.
func (s *stage) account(name, role string) (token string, remove func()) {
	s.t.Helper()
	s.kubectl("create", "serviceaccount", "--namespace="+system, name)
	s.kubectl("create", "clusterrolebinding", name, "--clusterrole="+role, "--serviceaccount="+system+":"+name)
	return strings.TrimSpace(s.kubectl("create", "token", "--namespace="+system, name)), func() {
		s.kubectl("delete", "clusterrolebinding/"+name)
		s.kubectl("delete", "serviceaccount", "--namespace="+system, name)
	}
}

// trusts writes the certificate of the operator's CA to a node, and returns its path there.
func (s *stage) trusts(node string) string {
	s.t.Helper()
	const path = "/tmp/ca.crt"
	ca := s.kubectl("get", "configmap/gcu-operator-ca", "--namespace="+system, `--output=jsonpath={.data.ca\.crt}`)
	_, err := s.OnNode(s.ctx, node, strings.NewReader(ca), "sh", "-c", "cat >"+path)
	check(s.t, err)
	return path
}

// blueprint writes the gr with changes as gr.json on a node.
func (s *stage) blueprint(node string, change func(*topsv1.GcuResource)) {
	s.t.Helper()
	data, err := os.ReadFile(s.Project.Path(grBlueprint))
	check(s.t, err)
	var gr topsv1.GcuResource
	check(s.t, json.Unmarshal(data, &gr))
	change(&gr)
	data, err = json.Marshal(gr)
	check(s.t, err)
	_, err = s.OnNode(s.ctx, node, strings.NewReader(string(data)), "sh", "-c", "cat >/tmp/gr.json && mv /tmp/gr.json "+blueprints)
	check(s.t, err)
}

// upgradedInPlace: the exporter gets another version, and nothing else is touched.
func (s *stage) upgradedInPlace(desk, person string) {
	s.t.Helper()
	before, old, observer := s.grPods(), s.gr(), s.observe()
	s.blueprint(desk, func(gr *topsv1.GcuResource) { gr.Spec.Exporter.Version = "2.0.0" })
	s.says(person, guide.Put)
	for _, node := range allNodes {
		s.eventually("node "+node+" is upgraded", func() error { return s.runs(exporterSet, node, "2.0.0") })
	}
	s.eventually("the gr shows 6/6 Running", func() error { return s.isRunning("6/6") })
	for uid, node := range observer.Deleted() {
		if before[uid] != exporterSet {
			s.t.Errorf("a pod of %s was replaced on %s", before[uid], node)
		}
	}
	if replaced, most := observer.Replaced(), observer.Most(); replaced != len(allNodes) || most != 1 {
		s.t.Errorf("%d pods were replaced, %d nodes were down at once", replaced, most)
	}
	if now := s.gr(); now.UID != old.UID || now.Annotations[topsv1.AnnotationUpdateStrategy] != "AdvancedRollingUpdate" {
		s.t.Errorf("the gr was recreated, or has no strategy: %+v", now.ObjectMeta)
	}
}

// foregroundDeletion: a foreground deletion returns when nothing is left.
func (s *stage) foregroundDeletion(person string) {
	s.t.Helper()
	s.says(person, guide.Foreground)
	if pods := s.grPods(); len(pods) > 0 {
		s.t.Errorf("it returned while there were pods of %v", slices.Sorted(maps.Values(pods)))
	}
	s.nothingRuns()
	s.says(person, guide.Gone)
}

// nothingRuns checks that no process of a component is left on a node.
func (s *stage) nothingRuns() {
	s.t.Helper()
	for _, node := range allNodes {
		if left := s.processesWith(node, "STANDIN_VERSION"); left != "" {
			s.t.Errorf("processes are left on node %s: %s", node, left)
		}
	}
}

// logged checks that the log file on the node has the requests and their results.
func (s *stage) logged(desk string) {
	s.t.Helper()
	log := s.on(desk, "cat", requestLog)
	for _, line := range []string{`{\"file\": \"gr.json\"}`, `{\"policy\": \"foreground\"}`} {
		if !strings.Contains(log, line) {
			s.t.Errorf("the log of requests has no %s:\n%s", line, log)
		}
	}
	s.t.Log(log)
}

func (s *stage) gr() *topsv1.GcuResource {
	s.t.Helper()
	var gr topsv1.GcuResource
	s.get(grName, &gr)
	return &gr
}

// grPods returns the pods of the gr's components, with the DaemonSet of each.
func (s *stage) grPods() map[types.UID]string {
	s.t.Helper()
	var list corev1.PodList
	check(s.t, s.Client.List(s.ctx, &list, client.InNamespace(system)))
	sets := map[types.UID]string{}
	for _, pod := range list.Items {
		if name := pod.Labels[nameLabel]; strings.HasPrefix(name, "enflame-") {
			sets[pod.UID] = name
		}
	}
	return sets
}
