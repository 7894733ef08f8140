package observed

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/fixture"
)

func container(image string) []corev1.Container {
	return []corev1.Container{{Name: "main", Image: image}}
}

// imageChange is a DaemonSet that gets another image, with its pod on node a.
func imageChange() memberAndPods {
	ds := fixture.DaemonSet("exporter")
	ds.Spec.Template.Spec.Containers = container("r/exporter:2")
	pod := fixture.PodOn(ds, "a", fixture.OldHash)
	pod.Spec.Containers = []corev1.Container{{Image: "r/exporter:1"}} // what the manager's cache keeps
	m := memberWith(ds, pod)
	m.Revisions[0].Data = templateWith("r/exporter:1")
	return m
}

// templateWith is the data of a ControllerRevision whose pods have an image.
func templateWith(image string) runtime.RawExtension {
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{"template": corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: container(image)}}}})
	if err != nil {
		panic(err)
	}
	return runtime.RawExtension{Raw: raw}
}

// withAgent returns the NodeUpgrade of node a, whose agent pulls images.
func withAgent() *topsv1.NodeUpgrade {
	u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	u.Status.Agent = &topsv1.AgentStatus{Capabilities: upgradeplan.Capabilities()}
	return u
}

// pullOn returns how far the images of the first member are on node a.
func pullOn(m memberAndPods, u *topsv1.NodeUpgrade, policy *topsv1.UpgradePolicy) rollout.Pull {
	s := seen{members: []memberAndPods{m}, nodes: []*corev1.Node{fixture.Node("a")}, policy: policy}
	if policy != nil {
		fixture.Annotate(m.DaemonSet, topsv1.AnnotationUpgradePolicy, policy.Name)
	}
	if u != nil {
		s.upgrades = []*topsv1.NodeUpgrade{u}
	}
	return s.observe().fleet.Node("a").Pods[0].Pull
}

func underOTA(ds *appsv1.DaemonSet) {
	fixture.Annotate(ds, topsv1.AnnotationUpdateStrategy, string(daemonset.OTA))
	delete(ds.Annotations, topsv1.AnnotationMaxUnavailable)
}

func TestWhereImagesArePulledBeforeALightChange(t *testing.T) {
	policyOf := func(mode topsv1.PrepullMode) *topsv1.UpgradePolicy {
		return &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: topsv1.UpgradePolicySpec{Prepull: mode}}
	}
	for _, test := range []struct {
		name   string
		change func(m *memberAndPods, u *topsv1.NodeUpgrade)
		policy *topsv1.UpgradePolicy
		want   rollout.PullState
	}{
		{"where the agent can", func(*memberAndPods, *topsv1.NodeUpgrade) {}, nil, rollout.PullNeeded},
		{"with a policy", func(*memberAndPods, *topsv1.NodeUpgrade) {}, policyOf(topsv1.PrepullAuto), rollout.PullNeeded},
		{"not if the policy says so", func(*memberAndPods, *topsv1.NodeUpgrade) {}, policyOf(topsv1.PrepullNever), rollout.PullByKubelet},
		{"not if the pod has them, whatever the policy says", func(m *memberAndPods, _ *topsv1.NodeUpgrade) {
			m.DaemonSet.Spec.Template.Spec.Containers = container("r/exporter:1")
		}, policyOf(topsv1.PrepullNever), rollout.PullNone},
		{"not by an agent that cannot", func(_ *memberAndPods, u *topsv1.NodeUpgrade) { u.Status.Agent.Capabilities = []string{"prepull"} }, nil, rollout.PullByKubelet},
		{"not where there is none", func(_ *memberAndPods, u *topsv1.NodeUpgrade) { u.Status.Agent = nil }, nil, rollout.PullByKubelet},
		{"where the pod's revision is not kept", func(m *memberAndPods, _ *topsv1.NodeUpgrade) {
			m.Revisions = m.Revisions[1:]
		}, nil, rollout.PullNeeded},
		{"where a container beside the first changes", func(m *memberAndPods, _ *topsv1.NodeUpgrade) {
			m.DaemonSet.Spec.Template.Spec.Containers = append(container("r/exporter:1"), container("r/beside:2")...)
		}, nil, rollout.PullNeeded},
		{"not what the pod runs already", func(m *memberAndPods, _ *topsv1.NodeUpgrade) {
			m.DaemonSet.Spec.Template.Spec.Containers = container("r/exporter:1")
		}, nil, rollout.PullNone},
		{"not where a webhook changes the images", func(m *memberAndPods, _ *topsv1.NodeUpgrade) {
			m.pods[0].Spec.Containers = container("mirror/r/exporter:1")
		}, nil, rollout.PullByKubelet},
		{"not under OTA", func(m *memberAndPods, _ *topsv1.NodeUpgrade) { underOTA(m.DaemonSet) }, nil, rollout.PullByKubelet},
		{"under OTA a person had them pulled", func(m *memberAndPods, _ *topsv1.NodeUpgrade) {
			underOTA(m.DaemonSet)
			m.pods[0].Status.Conditions = append(m.pods[0].Status.Conditions, corev1.PodCondition{Type: topsv1.PodImageReady, Status: corev1.ConditionTrue})
		}, nil, rollout.PullNone},
		{"more images than a pull may have", func(m *memberAndPods, _ *topsv1.NodeUpgrade) {
			for i := range 17 {
				m.DaemonSet.Spec.Template.Spec.Containers = append(m.DaemonSet.Spec.Template.Spec.Containers, container(fmt.Sprint("r/x:", i))...)
			}
		}, nil, rollout.PullByKubelet},
	} {
		m, u := imageChange(), withAgent()
		test.change(&m, u)
		if got := pullOn(m, u, test.policy).State; got != test.want {
			t.Errorf("%s: state %d, want %d", test.name, got, test.want)
		}
	}
	if got := pullOn(imageChange(), nil, nil).State; got != rollout.PullByKubelet {
		t.Errorf("no NodeUpgrade: state %d", got)
	}
}

// asking asks node a for the images of a revision, at a time, and says what came of it.
func asking(age time.Duration, attempt int32, revision string, result *topsv1.HostTaskResult) *topsv1.NodeUpgrade {
	u := withAgent()
	u.Spec.Prepulls = []topsv1.Prepull{{ID: "id", Attempt: attempt, Time: fixture.Ago(age), Revision: revision,
		DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "exporter", UID: "uid-exporter"}}}
	if result != nil {
		result.Operation, result.Task = "id", "a_pod_prepull"
		u.Status.Host = &topsv1.HostReport{Results: []topsv1.HostTaskResult{*result}}
	}
	return u
}

func said(attempt int32, state topsv1.HostTaskState, reason string) *topsv1.HostTaskResult {
	return &topsv1.HostTaskResult{Attempt: attempt, State: state, Reason: reason, Message: "words"}
}

func TestWhatBecameOfAPrepull(t *testing.T) {
	at := func(d time.Duration) time.Time { return fixture.Epoch.Add(d) }
	failed := func(attempts int32, retry time.Duration) rollout.Pull {
		return rollout.Pull{State: rollout.PullFailed, Attempts: attempts, Retry: at(retry), Message: "words"}
	}
	again := func(attempts int32, retry, until time.Duration, message string) rollout.Pull {
		return rollout.Pull{State: rollout.PullFailed, Attempts: attempts, Retry: at(retry), Until: at(until), Message: message}
	}
	for _, test := range []struct {
		name    string
		upgrade *topsv1.NodeUpgrade
		want    rollout.Pull
	}{
		{"it was asked for", asking(time.Minute, 1, fixture.NewHash, nil), rollout.Pull{State: rollout.PullRequested, Until: at(time.Minute)}},
		{"by a manager whose clock is ahead", asking(-time.Hour, 1, fixture.NewHash, nil), rollout.Pull{State: rollout.PullNeeded}},
		{"by one whose clock is ahead, again", asking(-time.Hour, 2, fixture.NewHash, nil), rollout.Pull{State: rollout.PullFailed, Attempts: 2, Retry: at(0)}},
		{"for another revision", asking(time.Minute, 1, fixture.OldHash, nil), rollout.Pull{State: rollout.PullNeeded}},
		{"it has begun", asking(time.Minute, 1, fixture.NewHash, said(1, topsv1.HostTaskRunning, "InProgress")), rollout.Pull{State: rollout.PullRequested, Until: at(16 * time.Minute)}},
		{"the images are there", asking(time.Minute, 1, fixture.NewHash, said(1, topsv1.HostTaskDone, "Pulled")), rollout.Pull{State: rollout.PullReady, Until: at(24*time.Hour - time.Minute)}},
		{"they are left to the kubelet", asking(time.Minute, 1, fixture.NewHash, said(1, topsv1.HostTaskDone, "LeftToKubelet")), rollout.Pull{State: rollout.PullByKubelet}},
		{"the registry refuses", asking(0, 1, fixture.NewHash, said(1, topsv1.HostTaskFailed, "PullFailed")), failed(1, time.Minute)},
		{"it takes too long, for the second time", asking(0, 2, fixture.NewHash, said(2, topsv1.HostTaskFailed, "PullTimedOut")), failed(2, 2*time.Minute)},
		{"it takes too long, for the third time", asking(0, 3, fixture.NewHash, said(3, topsv1.HostTaskFailed, "PullTimedOut")), rollout.Pull{State: rollout.PullByKubelet}},
		{"for the hundredth time", asking(0, 100, fixture.NewHash, said(100, topsv1.HostTaskFailed, "BadPullSecret")), failed(100, 16*time.Minute)},
		{"the answer is to an earlier attempt", asking(0, 2, fixture.NewHash, said(1, topsv1.HostTaskFailed, "PullFailed")), again(2, 2*time.Minute, 17*time.Minute, "words")},
		{"it is tried again", asking(time.Minute, 3, fixture.NewHash, said(3, topsv1.HostTaskRunning, "")), again(3, 3*time.Minute, 16*time.Minute, "words")},
		{"nobody answers the second time", asking(17*time.Minute, 2, fixture.NewHash, nil), again(2, -15*time.Minute, 0, "")},
		{"there is no engine", asking(0, 1, fixture.NewHash, said(1, topsv1.HostTaskFailed, "NoEngine")), rollout.Pull{State: rollout.PullByKubelet}},
		{"there is no engine for a moment", asking(0, 2, fixture.NewHash, said(2, topsv1.HostTaskFailed, "NoEngine")), failed(2, 2*time.Minute)},
	} {
		if diff := cmp.Diff(test.want, pullOn(imageChange(), test.upgrade, nil)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestNextPrepulls(t *testing.T) {
	m := imageChange()
	m.DaemonSet.Spec.Template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "secret"}}
	next := func(cached, live *topsv1.NodeUpgrade) ([]topsv1.Prepull, bool, error) {
		w := seen{members: []memberAndPods{m}, nodes: []*corev1.Node{fixture.Node("a")}, upgrades: []*topsv1.NodeUpgrade{cached}}.observe()
		return NextPrepulls(w.State, live, []int{0}, fixture.Epoch)
	}
	got, changed, err := next(withAgent(), withAgent())
	if err != nil || !changed || len(got) != 1 {
		t.Fatalf("%+v, %t, %v", got, changed, err)
	}
	want := topsv1.Prepull{ID: got[0].ID, Attempt: 1, Time: metav1.NewTime(fixture.Epoch), DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "exporter", UID: "uid-exporter"},
		Revision: fixture.NewHash, Images: []string{"r/exporter:2"}, PullSecrets: []string{"secret"}}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("a new one (-want +got):\n%s", diff)
	}
	if got, changed, _ := next(withAgent(), asking(0, 1, fixture.NewHash, nil)); changed {
		t.Errorf("asked twice, by a stale cache: %+v", got)
	}
	if got, changed, _ := next(withAgent(), asking(0, 1, fixture.OldHash, nil)); !changed || len(got) != 1 || got[0].ID == "id" {
		t.Errorf("another revision: %+v", got)
	}
	failed := asking(time.Hour, 2, fixture.NewHash, said(2, topsv1.HostTaskFailed, "PullFailed"))
	if got, changed, _ := next(failed, failed); !changed || len(got) != 1 || got[0].ID != "id" || got[0].Attempt != 3 {
		t.Errorf("repeated: %+v", got)
	}
	if got, changed, _ := next(failed, asking(0, 3, fixture.NewHash, nil)); changed {
		t.Errorf("repeated twice, by a stale cache: %+v", got)
	}
	old := asking(48*time.Hour, 2, fixture.NewHash, said(2, topsv1.HostTaskDone, "Pulled"))
	if got, changed, _ := next(old, old); !changed || len(got) != 1 || got[0].ID == "id" || got[0].Attempt != 1 {
		t.Errorf("pulled long ago: %+v", got)
	}
	full := withAgent()
	for i := range maxPrepulls {
		full.Spec.Prepulls = append(full.Spec.Prepulls, topsv1.Prepull{ID: fmt.Sprint("other-", i), Time: fixture.Ago(time.Minute), DaemonSet: topsv1.NamespacedRef{UID: "other"}})
	}
	if got, _, err := next(full, full); err == nil {
		t.Errorf("no room: %+v", got)
	}
	full.Spec.Prepulls[0].Time = fixture.Ago(time.Hour)
	if got, changed, err := next(full, full); err != nil || !changed || len(got) != maxPrepulls || got[0].ID != "other-1" {
		t.Errorf("room by an old one: %+v, %v", got, err)
	}
}

func TestPrepullsAnswered(t *testing.T) {
	none, running := asking(0, 1, fixture.NewHash, nil), asking(0, 1, fixture.NewHash, said(1, topsv1.HostTaskRunning, ""))
	ended, again := asking(0, 1, fixture.NewHash, said(1, topsv1.HostTaskFailed, "")), asking(0, 1, fixture.NewHash, said(2, topsv1.HostTaskFailed, ""))
	for i, step := range [][2]*topsv1.NodeUpgrade{{none, running}, {running, ended}, {ended, again}} {
		if !PrepullResultsChanged(step[0], step[1]) || PrepullResultsChanged(step[1], step[1]) {
			t.Errorf("step %d", i)
		}
	}
}

// A pull that failed, and was asked for by a manager whose clock was an hour ahead, is asked for again when the node
// is due by the time that the plan uses.
func TestAPullOfAManagerWhoseClockWasAheadIsRepeated(t *testing.T) {
	m := imageChange()
	u := asking(-time.Hour, 1, fixture.NewHash, said(1, topsv1.HostTaskFailed, "PullFailed"))
	w := seen{members: []memberAndPods{m}, nodes: []*corev1.Node{fixture.Node("a")}, upgrades: []*topsv1.NodeUpgrade{u}}.observe()
	node := w.fleet.Node("a")
	due := node.Pods[0].Pull.Retry
	if _, changed, err := NextPrepulls(w.State, u, []int{0}, due.Add(time.Second)); err != nil || !changed {
		t.Errorf("due at %s, and not asked for a second later: %v", due, err)
	}
}

// A node whose image is known to be bad keeps its pod, also if the next attempt gets no answer, or could not be made.
func TestANodeWithABadImageKeepsItsPodIfTheNextAttemptIsNotMade(t *testing.T) {
	for name, u := range map[string]*topsv1.NodeUpgrade{
		"no engine, for a moment":     asking(time.Minute, 5, fixture.NewHash, said(5, topsv1.HostTaskFailed, "NoEngine")),
		"withdrawn":                   asking(time.Minute, 5, fixture.NewHash, said(5, topsv1.HostTaskFailed, "Withdrawn")),
		"the agent is being upgraded": asking(startDeadline+time.Second, 5, fixture.NewHash, said(4, topsv1.HostTaskFailed, "PullFailed")),
	} {
		pull := pullOn(imageChange(), u, nil)
		if pull.State == rollout.PullByKubelet || pull.State == rollout.PullRequested && !pull.Until.After(fixture.Epoch) {
			t.Errorf("%s: the pod is deleted: %+v", name, pull)
		}
	}
}

// A refused write does not cost the pod of a node whose image is known to be bad.
func TestARefusedWriteDoesNotStartANodeWithABadImage(t *testing.T) {
	n := rollout.Node{Pods: []rollout.Pod{{Pull: rollout.Pull{State: rollout.PullFailed, Retry: fixture.Epoch, Message: "no such image"}}}}
	LeavePulls(&n, &rollout.Denial{Retry: fixture.Epoch.Add(time.Second)}, fixture.Epoch)
	if n.Pods[0].Pull.State == rollout.PullByKubelet {
		t.Error("it is started with it")
	}
}

// What was pulled long ago may have been collected by the kubelet since.
func TestImagesPulledLongAgoAreAskedForAgain(t *testing.T) {
	u := asking(30*24*time.Hour, 1, fixture.NewHash, said(1, topsv1.HostTaskDone, "Pulled"))
	if pull := pullOn(imageChange(), u, nil); !pull.IsDue(fixture.Epoch) {
		t.Errorf("pulled a month ago, and not asked for again: %+v", pull)
	}
}

// A pull that takes longer than the agent waits, over a slow link, is left to the kubelet in the end.
func TestASlowPullIsLeftToTheKubeletInTheEnd(t *testing.T) {
	u := asking(time.Minute, 50, fixture.NewHash, said(50, topsv1.HostTaskFailed, "PullTimedOut"))
	if pull := pullOn(imageChange(), u, nil); pull.State != rollout.PullByKubelet {
		t.Errorf("after 50 times 15 minutes: %+v", pull)
	}
}

// Of a component that gets another name, the pod of the DaemonSet that leaves is deleted, and what the one that takes over
// from it needs is pulled first.
func TestARenamedComponentHasItsImagesPulledFirst(t *testing.T) {
	former := imageChange()
	leaving(former.DaemonSet)
	next := fixture.DaemonSet("exporter-next")
	next.Spec.Template.Spec.Containers = container("r/exporter:2")
	fixture.Annotate(next, topsv1.AnnotationSuccessorOf, former.Key()+";hash")
	u := withAgent()
	s := seen{members: []memberAndPods{former, memberWith(next, waiting(fixture.PodOn(next, "a", fixture.NewHash), false))},
		nodes: []*corev1.Node{fixture.Node("a")}, upgrades: []*topsv1.NodeUpgrade{u}}
	w := s.observe()
	if pull := w.fleet.Node("a").Pods[0].Pull; pull.State != rollout.PullNeeded {
		t.Fatalf("%+v: its pod is deleted for an image that may be bad", pull)
	}
	asked, changed, err := NextPrepulls(w.State, u, []int{0}, fixture.Epoch)
	if err != nil || !changed || asked[0].DaemonSet.UID != next.UID || cmp.Diff([]string{"r/exporter:2"}, asked[0].Images) != "" {
		t.Fatalf("asked for %+v, %v", asked, err)
	}
	u.Spec.Prepulls = asked
	if pull := s.observe().fleet.Node("a").Pods[0].Pull; pull.State != rollout.PullRequested {
		t.Errorf("%+v after it was asked for", pull)
	}
	next.Spec.Template.Spec.NodeSelector = map[string]string{"site": "another"}
	if pull := s.observe().fleet.Node("a").Pods[0].Pull; pull.State != rollout.PullNone {
		t.Errorf("%+v on a node that the successor does not run on", pull)
	}
	next.Spec.Template.Spec.NodeSelector = nil
	former.pods[0] = waiting(fixture.PodOn(former.DaemonSet, "a", fixture.NewHash), true)
	if pull := s.observe().fleet.Node("a").Pods[0].Pull; pull.State != rollout.PullNone {
		t.Errorf("%+v for a placeholder", pull)
	}
}

// Nor does it, for a day, when other DaemonSets ask for room: the oldest pulls that did not fail make it.
func TestAPullThatFailedMakesNoRoom(t *testing.T) {
	for since, want := range map[time.Duration]string{20 * time.Minute: "other-0", 25 * time.Hour: ""} {
		u := asking(since, 5, fixture.NewHash, said(5, topsv1.HostTaskFailed, "PullFailed"))
		bad := u.Spec.Prepulls[0].ID
		for i := range maxPrepulls - 1 {
			u.Spec.Prepulls = append(u.Spec.Prepulls, topsv1.Prepull{ID: fmt.Sprint("other-", i), Time: fixture.Ago(19 * time.Minute), DaemonSet: topsv1.NamespacedRef{UID: types.UID(fmt.Sprint("other-", i))}})
		}
		ds := fixture.DaemonSet("gfd")
		ds.Spec.Template.Spec.Containers = container("r/gfd:2")
		pod := fixture.PodOn(ds, "a", fixture.OldHash)
		pod.Spec.Containers = []corev1.Container{{Image: "r/gfd:1"}}
		m := memberWith(ds, pod)
		m.Revisions[0].Data = templateWith("r/gfd:1")
		w := seen{members: []memberAndPods{m}, nodes: []*corev1.Node{fixture.Node("a")}, upgrades: []*topsv1.NodeUpgrade{u}}.observe()
		next, changed, err := NextPrepulls(w.State, u, []int{0}, fixture.Epoch)
		if err != nil || !changed || len(next) != maxPrepulls {
			t.Fatal(next, changed, err)
		}
		gone := want
		if gone == "" {
			gone = bad
		}
		if slices.ContainsFunc(next, func(p topsv1.Prepull) bool { return p.ID == gone }) {
			t.Errorf("since %s: %s is not the one that makes room", since, gone)
		}
	}
}
