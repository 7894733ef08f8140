package gating

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/test/fixture"
)

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
}

// gated returns the pod of a DaemonSet at the gate of a node.
func gated(ds *appsv1.DaemonSet, name, hash string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Name: ds.Name + "-x", UID: "uid-gated", Labels: fixture.Hashed(ds, hash),
		OwnerReferences: fixture.ControlledBy("apps/v1", "DaemonSet", ds.Name, ds.UID)}}
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateAwaitingUpgrade}}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{
			{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}}}}}
	return pod
}

// revisions returns revisions whose containers have the image of their name.
func revisions(t *testing.T, ds *appsv1.DaemonSet, change func(*corev1.PodTemplateSpec), hashes ...string) []*appsv1.ControllerRevision {
	t.Helper()
	list := fixture.RevisionsOf(ds, hashes...)
	for i, hash := range hashes {
		template := ds.Spec.Template.DeepCopy()
		template.Spec.Containers = []corev1.Container{{Name: "main", Image: "app:" + hash}}
		change(template)
		raw, err := json.Marshal(map[string]any{"spec": map[string]any{"template": template}})
		if err != nil {
			t.Fatal(err)
		}
		list[i].Data.Raw = raw
	}
	return list
}

func TestDecide(t *testing.T) {
	unchanged := func(*corev1.PodTemplateSpec) {}
	for _, c := range []struct {
		name     string
		facts    Facts
		template func(*corev1.PodTemplateSpec)
		taint    string
		// want is "release", "wait", or the revision to restore.
		want string
	}{
		{name: "restores the revision that the node had", facts: Facts{Had: "old", Good: "older"}, want: "old"},
		{name: "gives a new node the last known good revision", facts: Facts{Good: "old"}, want: "old"},
		{name: "gives a node the revision that most have when no good one is known", facts: Facts{Common: "old"}, want: "old"},
		{name: "releases it on a node with a slot", facts: Facts{GetsTarget: true, Had: "old"}, want: "release"},
		{name: "does not release another revision than the target on a node with a slot", facts: Facts{GetsTarget: true, Had: "old", Target: "newer"}, want: "old"},
		{name: "releases the revision that the node had", facts: Facts{Had: "new", Good: "old"}, want: "release"},
		{name: "releases the last known good revision on a new node", facts: Facts{Good: "new"}, want: "release"},
		{name: "releases a settled revision that the policy did not know", facts: Facts{Had: "old", Settled: "new"}, want: "release"},
		{name: "releases pods of a DaemonSet that is not upgraded any more", facts: Facts{Uncontrolled: true, Had: "old"}, want: "release"},
		{name: "releases it when there is no other revision", facts: Facts{}, want: "release"},
		{name: "takes the last known good revision when what the node had was trimmed", facts: Facts{Had: "trimmed", Good: "old"}, want: "old"},
		{name: "restores no revision that does not fit the node", facts: Facts{Had: "old"}, want: "release",
			template: func(p *corev1.PodTemplateSpec) { p.Spec.NodeSelector = map[string]string{"gone": "true"} }},
		{name: "restores no revision with another account", facts: Facts{Had: "old"}, want: "release",
			template: func(p *corev1.PodTemplateSpec) { p.Spec.ServiceAccountName = "admin" }},
		{name: "waits while the device is closed for an operation", facts: Facts{Had: "old"}, taint: topsv1.TaintDriverUpgrade, want: "wait"},
		{name: "waits while a taint keeps the DaemonSet away", facts: Facts{Had: "old"}, taint: "example.com/busy", want: "wait"},
		{name: "restores the revision that the node is pinned to", facts: Facts{Pin: "older", Had: "old", Good: "old"}, want: "older"},
		{name: "restores it also on a node with a slot", facts: Facts{Pin: "old", GetsTarget: true}, want: "old"},
		{name: "restores it also in place of a settled one", facts: Facts{Pin: "old", Settled: "new", Had: "new"}, want: "old"},
		{name: "releases the revision that the node is pinned to", facts: Facts{Pin: "new", Had: "old"}, want: "release"},
		{name: "waits on a pinned node whose revision was trimmed", facts: Facts{Pin: "trimmed", Had: "old", Good: "old"}, want: "wait"},
		{name: "waits on a pinned node that is closed", facts: Facts{Pin: "old"}, taint: topsv1.TaintDriverUpgrade, want: "wait"},
		{name: "releases it on a tainted node with a slot", facts: Facts{GetsTarget: true}, taint: topsv1.TaintDriverUpgrade, want: "release"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ds, n := fixture.DaemonSet("driver"), node("n1")
			if c.taint != "" {
				n.Spec.Taints = []corev1.Taint{{Key: c.taint, Effect: corev1.TaintEffectNoSchedule}}
			}
			if c.template == nil {
				c.template = unchanged
			}
			if c.facts.Target == "" {
				c.facts.Target = "new"
			}
			c.facts.Revisions = revisions(t, ds, c.template, "older", "old", "new")
			a := Decide(*WaitingOf(ds, n, []*corev1.Pod{gated(ds, "n1", "new")}), &c.facts)
			got := "wait"
			switch {
			case a.Release:
				got = "release"
			case a.Restore != nil:
				got = daemonset.RevisionHash(a.Restore)
			}
			if got != c.want {
				t.Errorf("got %s (%s), want %s", got, a.Why, c.want)
			}
		})
	}
}

func TestARestoredPodIsLikeThatOfTheDaemonSetController(t *testing.T) {
	ds := fixture.DaemonSet("driver")
	list := revisions(t, ds, func(p *corev1.PodTemplateSpec) { p.Spec.HostNetwork = true }, "old", "new")
	w := WaitingOf(ds, node("n1"), []*corev1.Pod{gated(ds, "n1", "new")})
	pod := Decide(*w, &Facts{Had: "old", Target: "new", Revisions: list}).Restore
	if !metav1.IsControlledBy(pod, ds) || pod.Spec.NodeName != "n1" || pod.Spec.Containers[0].Image != "app:old" || len(pod.Spec.SchedulingGates) > 0 {
		t.Errorf("got %+v", pod)
	}
	if diff := cmp.Diff(fixture.Hashed(ds, "old"), pod.Labels); diff != "" {
		t.Error(diff)
	}
	if again := Decide(*w, &Facts{Had: "old", Target: "new", Revisions: list}).Restore; again.Name != pod.Name {
		t.Errorf("it is called %s, and then %s", pod.Name, again.Name)
	}
	tolerated := map[string]corev1.TaintEffect{}
	for _, toleration := range pod.Spec.Tolerations {
		tolerated[toleration.Key] = toleration.Effect
	}
	want := map[string]corev1.TaintEffect{"node.kubernetes.io/not-ready": "NoExecute", "node.kubernetes.io/unreachable": "NoExecute", "node.kubernetes.io/disk-pressure": "NoSchedule",
		"node.kubernetes.io/memory-pressure": "NoSchedule", "node.kubernetes.io/pid-pressure": "NoSchedule", "node.kubernetes.io/unschedulable": "NoSchedule", "node.kubernetes.io/network-unavailable": "NoSchedule"}
	if diff := cmp.Diff(want, tolerated); diff != "" {
		t.Error(diff)
	}
}

func TestWaitingOf(t *testing.T) {
	ds, n := fixture.DaemonSet("driver"), node("n1")
	at := gated(ds, "n1", "new")
	running := gated(ds, "n1", "old")
	running.UID, running.Spec.SchedulingGates, running.Spec.NodeName = "uid-running", nil, "n1"
	ended := running.DeepCopy()
	ended.DeletionTimestamp, ended.Status.Phase = &metav1.Time{}, corev1.PodSucceeded
	foreign := at.DeepCopy()
	foreign.OwnerReferences[0].UID = "another"
	for name, c := range map[string]struct {
		pods []*corev1.Pod
		want bool
	}{
		"it is alone":                        {[]*corev1.Pod{at}, true},
		"another pod lives":                  {[]*corev1.Pod{at, running}, false},
		"the pod before has ended":           {[]*corev1.Pod{at, ended}, true},
		"there is none":                      {nil, false},
		"it is that of a former DaemonSet":   {[]*corev1.Pod{foreign}, false},
		"the only pod is not at the gate":    {[]*corev1.Pod{running}, false},
		"the pod of the template is no more": {[]*corev1.Pod{ended}, false},
	} {
		if got := WaitingOf(ds, n, c.pods) != nil; got != c.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestMemory(t *testing.T) {
	ds, other, n := fixture.DaemonSet("driver"), fixture.DaemonSet("plugin"), node("n1")
	running := func(hash string) []*corev1.Pod {
		pod := gated(ds, "n1", hash)
		pod.Spec.SchedulingGates, pod.Spec.NodeName, pod.CreationTimestamp = nil, "n1", fixture.Ago(time.Minute)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		return []*corev1.Pod{pod}
	}
	starting := func(hash string) []*corev1.Pod {
		pods := running(hash)
		pods[0].Status.Conditions = nil
		return pods
	}
	m := LastRevisions{}
	m.Note(ds, n, []*corev1.Pod{gated(ds, "n1", "new")})
	if got := m.Of(ds, n); got != "" {
		t.Errorf("with a pod at the gate, the node had %q", got)
	}
	m.Note(ds, n, starting("oldest"))
	m.Note(ds, n, starting("older"))
	if got := m.Of(ds, n); got != "older" {
		t.Errorf("without another one, the node had %q", got)
	}
	m.Note(ds, n, running("old"))
	m.Note(ds, n, starting("new")) // it never works
	m.Note(ds, n, nil)
	m.Note(ds, n, []*corev1.Pod{gated(ds, "n1", "new")})
	if got := m.Of(ds, n); got != "old" {
		t.Errorf("the node had %q", got)
	}
	again := node("n1")
	again.UID = "another"
	if got := m.Of(ds, again) + m.Of(other, n) + m.Of(ds, node("n2")); got != "" {
		t.Errorf("it knows %q", got)
	}
	again.CreationTimestamp = fixture.Ago(0)
	m.Note(ds, again, running("of the node before")) // a cache of pods may be older than that of nodes
	if got := m.Of(ds, again); got != "" {
		t.Errorf("a node that is created again had %q", got)
	}
	for i, hash := range []string{"older", "new", "new"} {
		m.Note(ds, node(string(rune('a'+i))), running(hash))
	}
	m.Note(ds, node("d"), running("old"))
	if got := m.Common(ds, "new"); got != "old" {
		t.Errorf("most nodes have %q", got)
	}
	ended := func(hash string, age time.Duration) *corev1.Pod {
		pod := running(hash)[0]
		pod.CreationTimestamp, pod.DeletionTimestamp, pod.Status = fixture.Ago(age), &metav1.Time{}, corev1.PodStatus{Phase: corev1.PodFailed}
		return pod
	}
	started := LastRevisions{}
	started.Note(ds, n, []*corev1.Pod{ended("old", 2*time.Minute), ended("new", time.Minute), gated(ds, "n1", "newer")}) // kept by finalizers
	if got := started.Of(ds, n); got != "new" {
		t.Errorf("the last pod that ended had new, the node had %q", got)
	}
	m.Forget("n1")
	if got := m.Of(ds, n); got != "" {
		t.Errorf("it remembers %q of a node that is gone", got)
	}
}

// A finalizer keeps the pod at the gate that was deleted once another one was created in its place: it is the older one and
// terminates, and it never ran.
func TestAPodKeptAtTheGateHidesNoneThatIsReady(t *testing.T) {
	ds, n := fixture.DaemonSet("driver"), node("n1")
	kept := gated(ds, "n1", "new")
	kept.CreationTimestamp, kept.DeletionTimestamp, kept.Finalizers = fixture.Ago(time.Minute), &metav1.Time{}, []string{"example.com/stuck"}
	restored := gated(ds, "n1", "old")
	restored.UID, restored.Spec.SchedulingGates, restored.Spec.NodeName, restored.CreationTimestamp = "uid-restored", nil, "n1", fixture.Ago(0)
	restored.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	m := LastRevisions{}
	m.Note(ds, n, []*corev1.Pod{kept, restored})
	if got := m.Of(ds, n); got != "old" {
		t.Errorf("the pod of old is ready, the node had %q", got)
	}
}

func TestSettled(t *testing.T) {
	target := func(hash string) []topsv1.RevisionTarget {
		return []topsv1.RevisionTarget{{DaemonSet: "ns/driver", Hash: hash}}
	}
	for _, c := range []struct {
		name               string
		before, targets    []topsv1.RevisionTarget
		everywhere, behind bool
		want               string
	}{
		{"every node has the target", target(""), target("new"), true, false, "new"},
		{"an installation, in which no node has another revision", nil, nil, false, false, "new"},
		{"nodes have another revision when the operator takes over", nil, nil, false, true, ""},
		{"a manager that knows of no gate came before", nil, target("new"), false, false, ""},
		{"a new target", target("old"), target("old"), false, true, ""},
		{"a new target, while the last old pod is being replaced", target("old"), target("old"), false, false, ""},
		{"the last old pod is being replaced", target(""), target("new"), false, false, ""},
		{"a pod of a settled revision is missing", target("new"), target("new"), false, false, "new"},
		{"a node with another revision returns", target("new"), target("new"), false, true, ""},
	} {
		got := Settled(c.before, c.targets, target("new"), c.everywhere, c.behind)
		if diff := cmp.Diff(target(c.want), got); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestPodsWithRightsAreNotGated(t *testing.T) {
	for account, want := range map[string]bool{"": true, "default": true, "nfd-service-account": true, "gcushare-device-plugin": true, "cluster-admin": false} {
		ds := fixture.DaemonSet("driver")
		ds.Spec.Template.Spec.ServiceAccountName = account
		if got := IsGateable(ds); got != want {
			t.Errorf("account %q: got %v", account, got)
		}
	}
	ds := fixture.DaemonSet("driver")
	ds.Spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
	if IsGateable(ds) {
		t.Error("the DaemonSet controller would replace the pod of an earlier revision again")
	}
}
