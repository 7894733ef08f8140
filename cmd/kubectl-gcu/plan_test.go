package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/view"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// plannable makes a gr whose driver runs on nodes NAME-1 to NAME-3, one after the other.
func (s *site) plannable(name string) *topsv1.GcuResource {
	s.t.Helper()
	gr := s.gr(name, topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate", topsv1.AnnotationMaxUnavailable, "1")
	rendered, err := component.Render(gr, name+"-1")
	if err != nil {
		s.t.Fatal(err)
	}
	set := rendered[0].PerNode
	set.Status.ObservedGeneration = 1
	s.create(set)
	owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: set.Name, UID: set.UID, Controller: ptr.To(true)}}
	hash := map[string]string{component.LabelName: set.Name, appsv1.ControllerRevisionHashLabelKey: "old"}
	revision := &appsv1.ControllerRevision{Revision: 1, ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name + "-old", Labels: hash, OwnerReferences: owner}}
	revision.Data.Raw = []byte("{}")
	s.create(revision)
	for i := range 3 {
		node := fmt.Sprintf("%s-%d", name, i+1)
		s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: map[string]string{topsv1.LabelGcuPresent: "true"}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
		s.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: node, Labels: hash, OwnerReferences: owner},
			Spec:   corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: ptr.To[int64](0), Containers: []corev1.Container{{Name: "main", Image: "app:1"}}},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}})
	}
	return gr
}

func TestPlanOfARealServer(t *testing.T) {
	s := newSite(t)
	gr := s.plannable("planned")
	file := grFile("planned", "1.1")
	s.says(s.gcu("plan", "planned"), exitOK, "GcuResource planned: nothing to do")
	s.says(s.gcuWith(t.Context(), file, "plan", "-f", "-"), exitOK, "3 of 3 nodes upgraded, at most 1 unavailable at once", "driver.version: 1.0 -> 1.1",
		"gcu-driver:1.0 -> gcu-driver:1.1", "upgraded node by node", "EvictAccelerator", "replace driver")
	s.says(s.gcuWith(t.Context(), file, "plan", "-f", "-", "-o", "wide", "--nodes", "planned-2,planned-3"), exitOK, "limited to 2 nodes (planned-2, planned-3)",
		"2 of 3 nodes upgraded", "turn 2", "1 node not upgraded", "LeftOut", "kubectl gcu upgrade planned --all")
	var told preview.Preview
	a := s.says(s.gcuWith(t.Context(), file, "plan", "-f", "-", "--nodes", "planned-2", "-o", "json"), exitOK)
	if err := json.Unmarshal([]byte(a.out), &told); err != nil || len(told.Nodes) != 1 || told.Nodes[0].Name != "planned-2" || len(told.Plan) != 1 || told.Only != "nodes=planned-2" {
		t.Errorf("-o json: %v, %+v", err, told)
	}
	s.says(s.gcuWith(t.Context(), file, "plan", "-f", "-", "-o", "mermaid"), exitOK, "flowchart TD", "replace driver")
	s.says(s.gcuWith(t.Context(), strings.Replace(file, "driver", "gfd", 1), "plan", "-f", "-"), exitOK, "no node is upgraded; see what happens at once",
		"driver      all     deleted AT ONCE", "gfd         all     deployed AT ONCE")

	for name, tt := range map[string]struct {
		args []string
		code int
		says string
	}{
		"a node that there is not":      {[]string{"-f", "-", "--nodes", "planned-1,absent"}, exitUsage, "there is no node absent"},
		"a component that is not there": {[]string{"-f", "-", "--components", "gfd"}, exitUsage, `no component "gfd" on its nodes; it has driver`},
		"no names":                      {[]string{"-f", "-", "--nodes", ""}, exitUsage, "--nodes has an empty name"},
		"an empty name":                 {[]string{"-f", "-", "--nodes", "planned-1,,planned-2"}, exitUsage, "--nodes has an empty name"},
		"all and some":                  {[]string{"-f", "-", "--all", "--nodes", "planned-1"}, exitUsage, "exclude each other"},
		"another gr":                    {[]string{"other", "-f", "-"}, exitRefused, "holds gr planned, not other"},
		"a gr that there is not":        {[]string{"absent"}, exitRefused, "there is no gr absent"},
		"a format that there is not":    {[]string{"planned", "-o", "dot"}, exitUsage, "table, wide, json, yaml, mermaid"},
	} {
		s.says(s.gcuWith(t.Context(), file, append([]string{"plan"}, tt.args...)...), tt.code, tt.says)
		_ = name
	}
	s.says(s.gcuWith(t.Context(), grFile("planned", "a b"), "plan", "-f", "-"), exitFailed, "spec.driver.version")
	before := gr.ResourceVersion
	if s.read(gr); gr.ResourceVersion != before {
		t.Error("a plan changed the gr")
	}

	reads := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: []string{"get", "list"}}
	}
	reader := s.as("plan-reader", reads(topsv1.GroupVersion.Group, "gcuresources", "daemonrollouts", "nodeupgrades", "upgradepolicies"),
		reads("apps", "daemonsets", "controllerrevisions"), reads("", "pods", "nodes"), reads("policy", "poddisruptionbudgets"))
	s.says(reader.gcuWith(t.Context(), file, "plan", "-f", "-"), exitOK, "not checked by the API server: you may not change gr planned", "3 of 3 nodes upgraded")
	narrow := s.as("plan-narrow", reads(topsv1.GroupVersion.Group, "gcuresources", "daemonrollouts"))
	s.says(narrow.gcu("plan", "planned"), exitForbidden, "missing right: list daemonsets.apps")

	s.says(s.gcu("__complete", "plan", ""), exitOK, "planned")
	s.says(s.gcu("__complete", "plan", "--nodes", "planned-1,"), exitOK, "planned-1,planned-2")
	s.says(s.gcu("__complete", "upgrade", "--components", "dri"), exitOK, "driver", "toolkit")
	s.says(s.gcu("__complete", "plan", "-o", ""), exitOK, "mermaid")
}

func TestUpgradeThatIsLimited(t *testing.T) {
	s := newSite(t)
	gr := s.plannable("cut")
	only := func(want, version string) {
		t.Helper()
		s.read(gr)
		if got := gr.Annotations[topsv1.AnnotationUpgradeOnly]; got != want || gr.Spec.Driver.Version != version || gr.Annotations[topsv1.AnnotationUpdateStrategy] == "" {
			t.Errorf("it is limited to %q with version %s and annotations %v, want %q and %s", got, gr.Spec.Driver.Version, gr.Annotations, want, version)
		}
	}
	next := grFile("cut", "1.1")
	s.says(s.gcuWith(t.Context(), next, "upgrade", "-f", "-", "--nodes", "cut-1,cut-2", "--components", "driver"), exitOK, "driver.version: 1.0 -> 1.1",
		"limited to 2 nodes (cut-1, cut-2) and 1 component (driver)", "gr cut is changed")
	only("nodes=cut-1,cut-2;components=driver", "1.1")
	onlyOursWrote(t, gr, topsv1.AnnotationUpgradeOnly)
	s.says(s.gcuWith(t.Context(), next, "upgrade", "-f", "-", "--nodes", "cut-1", "--nodes", "cut-2", "--components", "driver"), exitOK, "has this spec already, limited to 2 nodes")
	s.says(s.gcu("upgrade", "cut", "--nodes", "cut-3"), exitOK, "limited to 1 node (cut-3)")
	only("nodes=cut-3", "1.1")
	s.says(s.gcu("upgrade", "cut", "--all"), exitOK, "not limited to 1 node (cut-3) any more")
	only("", "1.1")
	s.says(s.gcu("upgrade", "cut", "--all"), exitOK, "has this spec already, and is not limited")
	limited := strings.Replace(grFile("cut", "1.2"), "{name: cut}", "{name: cut, annotations: {"+topsv1.AnnotationUpgradeOnly+": nodes=cut-2}}", 1)
	s.says(s.gcuWith(t.Context(), limited, "upgrade", "-f", "-"), exitOK, "limited to 1 node (cut-2)")
	only("nodes=cut-2", "1.2")
	s.says(s.gcuWith(t.Context(), grFile("cut", "1.3"), "upgrade", "-f", "-"), exitOK, "not limited to 1 node (cut-2) any more")
	only("", "1.3")
	s.says(s.gcuWith(t.Context(), limited, "upgrade", "-f", "-", "--all"), exitOK, "driver.version: 1.3 -> 1.2")
	only("", "1.2")

	s.says(s.gcuWith(t.Context(), strings.Replace(limited, "nodes=", "racks=", 1), "upgrade", "-f", "-"), exitUsage, "upgrade-only")
	s.says(s.gcuWith(t.Context(), grFile("cut", "9"), "upgrade", "-f", "-", "--nodes", "absent"), exitUsage, "there is no node absent")
	s.says(s.gcu("upgrade", "cut"), exitUsage, "-f FILE, or without it --nodes, --components or --all")
	s.says(s.gcu("upgrade", "absent", "--all"), exitRefused, "there is no gr absent")
	only("", "1.2")
}

func TestHoldAndRelease(t *testing.T) {
	s := newSite(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "holding"}}
	s.create(node)
	u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "holding"}}
	t.Cleanup(func() { _ = s.Delete(t.Context(), u) })
	held := func() string {
		t.Helper()
		s.read(u)
		return u.Annotations[topsv1.AnnotationHold]
	}
	s.says(s.gcu("release", "holding"), exitOK, "no administrator holds node holding")
	s.says(s.gcu("hold", "holding", "-m", "a run until Friday"), exitOK, "node holding is held", "kubectl gcu release holding")
	first := held()
	if !strings.HasSuffix(first, "Z a run until Friday") || len(u.OwnerReferences) != 1 || u.OwnerReferences[0].UID != node.UID || u.OwnerReferences[0].Kind != "Node" {
		t.Errorf("it is %+v", u)
	}
	onlyOursWrote(t, u, topsv1.AnnotationHold)
	before := u.ResourceVersion
	s.says(s.gcu("hold", "holding"), exitOK, "is held already: an administrator wants it left alone since", "a run until Friday")
	if held() != first || u.ResourceVersion != before {
		t.Error("holding what is held was a write")
	}
	s.says(s.gcu("hold", "holding", "-m", "until Monday"), exitOK, "the message is another now")
	if got := held(); got != strings.Replace(first, "a run until Friday", "until Monday", 1) {
		t.Errorf("it is held as %q, which was %q", got, first)
	}
	s.says(s.gcu("__complete", "release", ""), exitOK, "holding")
	s.says(s.gcu("__complete", "hold", ""), exitOK, "holding")
	u.Status.Agent = &topsv1.AgentStatus{Hold: &topsv1.NodeHold{Since: metav1.Now(), Message: "surgery"}}
	if err := s.Status().Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	s.says(s.gcu("release", "holding"), exitOK, "node holding is released", "held all the same: its person wants it left alone", "surgery")
	if held() != "" || u.Status.Agent.Hold == nil {
		t.Errorf("it is %+v", u)
	}
	s.says(s.gcu("hold", "absent"), exitRefused, "there is no node absent")
	s.says(s.gcu("hold", "holding", "-m", "two\nlines"), exitUsage, "one line")
	s.says(s.gcu("hold", "holding", "-m", strings.Repeat("x", 257)), exitUsage, "at most 256")
}

// tenThousand is a plan of many nodes: alike but for a wave, three of them offline, and
// one that is held up.
func tenThousand() *preview.Preview {
	p := &preview.Preview{GcuResource: "fleet", Components: []preview.Component{{Name: "driver", Change: preview.Upgrade, Nodes: 10_000}}}
	p.Limit, p.Total, p.Seconds = 100, 10_003, 7200
	for i := range 100 {
		var batch upgradeplan.Batch
		for j := range 100 {
			name := fmt.Sprintf("node-%05d", i*100+j)
			n := preview.Node{Name: name, AfterSeconds: int64(i * 72), Disruption: upgradeplan.EvictAccelerator, Replaces: []string{"driver"}, Evicts: []string{"default/" + name}}
			if i == 0 {
				n.Wave = "canary"
			}
			if i == 50 && j == 0 {
				n.Holds = "PodDisruptionBudget default/x allows no eviction now"
			}
			p.Nodes = append(p.Nodes, n)
			batch = append(batch, upgradeplan.Job{{{Host: name, Target: "node", Action: "cordon"}}, {{Host: name, Target: "driver", Action: "replace"}}})
		}
		p.Plan = append(p.Plan, batch)
	}
	for i := range 3 {
		p.Left = append(p.Left, preview.LeftNode{Name: fmt.Sprint("off-", i), Reason: "NodeOffline", Message: "offline"})
	}
	return p
}

func TestAPlanOfManyNodesCanBeRead(t *testing.T) {
	text := planText(tenThousand(), nil, view.Style{})
	want := `GcuResource fleet: 10000 of 10003 nodes upgraded, at most 100 unavailable at once; about 120m

COMPONENT   NODES   WHAT HAPPENS
driver      10000   upgraded node by node

batches: 100, nodes: 10000, at most at once: 100, tasks: 20000

BATCH   NODES                                                     ABOUT                           STAGE   TASKS
1       node-00000 … node-00099 (100 nodes)                       wave canary, EvictAccelerator   1       cordon node
                                                                                                  2       replace driver
2-100   node-00100 … node-09999 (9900 nodes, 100 at a time)       EvictAccelerator                1       cordon node
                                                                                                  2       replace driver

10000 pods evicted from 10000 nodes:
  NODE         PODS THAT LEAVE
`
	if !strings.HasPrefix(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(want), " ")) {
		t.Errorf("the plan begins otherwise than\n%s\n%s", want, text)
	}
	for _, words := range []string{"and from 9990 nodes more: -o wide", "1 node would be held up while they are emptied:\n  node-05000: PodDisruptionBudget", "3 nodes not upgraded:", "off-0, off-1, off-2"} {
		if !strings.Contains(text, words) {
			t.Errorf("it does not say %q:\n%s", words, text)
		}
	}
	if lines := strings.Count(text, "\n"); lines > 40 {
		t.Errorf("it has %d lines", lines)
	}
	if lines := strings.Count(planText(tenThousand(), nil, view.Style{Wide: true}), "\n"); lines < 20_000 {
		t.Errorf("-o wide has %d lines, want one for each node and its pods", lines)
	}
}
