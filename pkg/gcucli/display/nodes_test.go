package display

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	world "github.com/topsops/gcu-operator/test/fixture"
)

func TestANodeIsUpdatedWithEvidenceOnly(t *testing.T) {
	early := topsv1.OperationRecord{ID: "x", Phase: topsv1.OperationAborted, Reason: "Superseded", Touched: true, EndTime: world.Ago(0),
		Result: topsv1.OperationResult{Undo: []string{"a_toolkit_replace"}}}
	restarted := topsv1.OperationRecord{ID: "y", Phase: topsv1.OperationDone, Restarted: true, EndTime: world.Ago(0)}
	for _, tt := range []struct {
		name, revision, runtime string
		strategy                string
		restarts                *bool
		history                 []topsv1.OperationRecord
		waiting                 rollout.Reason
		want                    string
	}{
		{"all is well", world.NewHash, "enflame", "OTA", nil, nil, "", "updated AtTarget"},
		{"a restart is needed", world.NewHash, "runc", "OTA", nil, nil, rollout.ReasonBudgetExhausted, "pending BudgetExhausted"},
		{"by an administrator", world.NewHash, "runc", "OTA", ptr.To(false), nil, rollout.ReasonLeftToAdministrator, "held LeftToAdministrator"},
		{"something sets it back", world.NewHash, "runc", "OTA", nil, []topsv1.OperationRecord{restarted}, rollout.ReasonRuntimeSetBack, "pending RuntimeSetBack"},
		{"it is asked for, because a pod uses a card", world.NewHash, "runc", "OTA", nil, []topsv1.OperationRecord{}, rollout.ReasonAwaitingRequest, "held AwaitingRequest"},
		{"an operation ended early", world.NewHash, "enflame", "OTA", nil, []topsv1.OperationRecord{early}, rollout.ReasonBudgetExhausted, "pending BudgetExhausted"},
		{"without a strategy that does not matter", world.NewHash, "enflame", "RestartsOnly", nil, []topsv1.OperationRecord{early}, "", "updated AtTarget"},
		{"without a strategy outdated pods stay", world.OldHash, "runc", "RestartsOnly", nil, nil, rollout.ReasonBudgetExhausted, "outdated NoUpdateStrategy"},
		{"and a restart is needed", world.NewHash, "runc", "RestartsOnly", nil, nil, rollout.ReasonBudgetExhausted, "pending BudgetExhausted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ds := world.ComponentOf("toolkit")
			u := world.NodeUpgrade("a")
			u.Status.Host = &topsv1.HostReport{Runtime: &topsv1.RuntimeReport{Engine: "docker", Default: tt.runtime}}
			u.Status.Agent, u.Status.History = &topsv1.AgentStatus{RestartsRuntime: tt.restarts}, tt.history
			dro := &topsv1.DaemonRollout{Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "GcuResource", Name: "fleet"}}}
			dro.Status.Strategy = tt.strategy
			u.Status.Operation = &topsv1.OperationStatus{ID: "z", Rollout: "/", Phase: topsv1.OperationRunning, InUse: tt.waiting == rollout.ReasonAwaitingRequest}
			if !u.Status.Operation.InUse {
				u.Status.Operation = nil
			}
			if tt.waiting != "" {
				dro.Status.Waiting = []topsv1.WaitingNote{{Reason: string(tt.waiting), Nodes: 1}}
			}
			f := &Fleet{Resource: &topsv1.GcuResource{}, Rollout: dro, DaemonSets: []appsv1.DaemonSet{*ds}, Now: world.Epoch,
				Pods: []corev1.Pod{*world.PodOn(ds, "a", tt.revision)}, Nodes: []corev1.Node{*world.Node("a")}, NodeUpgrades: []topsv1.NodeUpgrade{*u}}
			for _, r := range world.RevisionsOf(ds, world.OldHash, world.NewHash) {
				f.Revisions = append(f.Revisions, *r)
			}
			n := NodesOf(f)[0]
			if got := n.State + " " + n.Reason; got != tt.want {
				t.Errorf("%s, want %s; %q", got, tt.want, n.Message)
			}
		})
	}
}

func TestANodeWhosePluginHasNoCardsIsNotUpdated(t *testing.T) {
	for offered, want := range map[string]string{"0": "pending BudgetExhausted", "8": "updated AtTarget"} {
		ds, node, u := world.ComponentOf("devicePlugin"), world.Node("a"), world.NodeUpgrade("a")
		pod := world.PodOn(ds, "a", world.NewHash)
		pod.Status.StartTime = ptr.To(world.Ago(time.Hour))
		node.Status.Allocatable = corev1.ResourceList{"enflame.com/gcu": resource.MustParse(offered)}
		u.Status.Host = &topsv1.HostReport{Devices: ptr.To[int32](8), Runtime: &topsv1.RuntimeReport{Engine: "containerd", Default: "enflame", StartTime: ptr.To(world.Ago(time.Minute))}}
		dro := &topsv1.DaemonRollout{Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "GcuResource", Name: "fleet"}}}
		dro.Status.Waiting = []topsv1.WaitingNote{{Reason: string(rollout.ReasonBudgetExhausted), Nodes: 1}}
		f := &Fleet{Resource: &topsv1.GcuResource{}, Rollout: dro, DaemonSets: []appsv1.DaemonSet{*ds}, Now: world.Epoch,
			Pods: []corev1.Pod{*pod}, Nodes: []corev1.Node{*node}, NodeUpgrades: []topsv1.NodeUpgrade{*u}}
		for _, r := range world.RevisionsOf(ds, world.OldHash, world.NewHash) {
			f.Revisions = append(f.Revisions, *r)
		}
		if n := NodesOf(f)[0]; n.State+" "+n.Reason != want {
			t.Errorf("it offers %s cards: %s %s, want %s; %q", offered, n.State, n.Reason, want, n.Message)
		}
	}
}

// A denied write waits for a person from its beginning; what merely takes its time is shown once it took long.
func TestANodeWhoseWriteIsDeniedIsStuckAtOnce(t *testing.T) {
	for step, stuck := range map[string]bool{"DeletionDenied": true, "FenceDenied": true, "OperationDenied": true, "NodeLost": true, "Replacing": false} {
		slot := &topsv1.NodeSlot{Node: "n", Step: step, Since: world.Ago(0)}
		if n := inFlight(&topsv1.DaemonRollout{}, slot, nil, world.Epoch); n.Stuck != stuck || n.Reason != step || stuck && n.Message == "" {
			t.Errorf("%s: %+v", step, n)
		}
	}
}

// What runs nothing is not missing (docs/adr/0014), and of several pods on a node the one counts that the operator looks at.
func TestANodeThatAComponentHasLeftIsUpdated(t *testing.T) {
	ds := world.ComponentOf("toolkit")
	ds.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
	unbound := func(gate, hash, suffix string, age time.Duration) corev1.Pod {
		pod := world.Unbound(world.PodOn(ds, "a", hash))
		pod.Name, pod.UID, pod.CreationTimestamp = pod.Name+suffix, pod.UID+types.UID(suffix), world.Ago(age)
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}}
		return *pod
	}
	placeholder := unbound(topsv1.GateRemoved, world.NewHash, "", time.Hour)
	left := *world.Deleting(world.PodOn(ds, "a", world.NewHash))
	left.Name, left.UID, left.CreationTimestamp, left.Status.Phase = "left", "left", world.Ago(2*time.Hour), corev1.PodSucceeded
	for _, tt := range []struct {
		name, want string
		pods       []corev1.Pod
	}{
		{"a placeholder", "updated AtTarget", []corev1.Pod{placeholder}},
		{"a placeholder that goes", "pending Unavailable", []corev1.Pod{*world.Deleting(placeholder.DeepCopy())}},
		{"a placeholder of a component that comes back", "pending BudgetExhausted", []corev1.Pod{unbound(topsv1.GateRemoved, world.OldHash, "", time.Hour)}},
		{"a pod that runs yet", "pending BudgetExhausted", []corev1.Pod{*world.PodOn(ds, "a", world.OldHash)}},
		{"beside one that only a finalizer keeps", "updated AtTarget", []corev1.Pod{placeholder, left}},
		{"beside one that waits for the turn of its node", "updated AtTarget", []corev1.Pod{placeholder, unbound(topsv1.GateAwaitingUpgrade, world.OldHash, "-waits", 2*time.Hour)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dro := &topsv1.DaemonRollout{Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "GcuResource", Name: "fleet"}}}
			dro.Status.Waiting = []topsv1.WaitingNote{{Reason: string(rollout.ReasonBudgetExhausted), Nodes: 1}}
			u := world.NodeUpgrade("a") // the runtime is no longer that of the toolkit, and stays so
			u.Status.Host = &topsv1.HostReport{Runtime: &topsv1.RuntimeReport{Engine: "docker", Default: "runc"}}
			f := &Fleet{Resource: &topsv1.GcuResource{}, Rollout: dro, DaemonSets: []appsv1.DaemonSet{*ds}, Now: world.Epoch,
				Nodes: []corev1.Node{*world.Node("a")}, NodeUpgrades: []topsv1.NodeUpgrade{*u}}
			for _, r := range world.RevisionsOf(ds, world.OldHash, world.NewHash) {
				f.Revisions = append(f.Revisions, *r)
			}
			for range 2 {
				slices.Reverse(tt.pods)
				f.Pods = tt.pods
				if n := NodesOf(f)[0]; n.State+" "+n.Reason != tt.want {
					t.Errorf("%s %s, want %s; %q", n.State, n.Reason, tt.want, n.Message)
				}
			}
		})
	}
}

// A rollout that is not found may be in another namespace: whoever then set another strategy than OTA would start it.
func TestAnOutdatedNodeWithoutARolloutIsToldApartByTheStrategy(t *testing.T) {
	for _, tt := range []struct{ key, want string }{
		{"", "outdated NoUpdateStrategy"},
		{topsv1.AnnotationUpdateStrategy, "pending NotSeen"},
		{topsv1.OpenYurtAnnotationUpdateStrategy, "pending NotSeen"},
	} {
		ds := world.ComponentOf("toolkit")
		f := &Fleet{Resource: &topsv1.GcuResource{}, DaemonSets: []appsv1.DaemonSet{*ds}, Now: world.Epoch,
			Pods: []corev1.Pod{*world.PodOn(ds, "a", world.OldHash)}, Nodes: []corev1.Node{*world.Node("a")}}
		if tt.key != "" {
			f.Resource.Annotations = map[string]string{tt.key: "OTA"}
		}
		for _, r := range world.RevisionsOf(ds, world.OldHash, world.NewHash) {
			f.Revisions = append(f.Revisions, *r)
		}
		if n := NodesOf(f)[0]; n.State+" "+n.Reason != tt.want || strings.Contains(n.Do, "annotate") != (tt.key == "") {
			t.Errorf("with annotation %q: %s %s, want %s; %q", tt.key, n.State, n.Reason, tt.want, n.Do)
		}
	}
}

// What has ended without keeping its node cannot be retried or aborted.
func TestAdviceAboutAnOperationThatHasEnded(t *testing.T) {
	const retried, itself = "do what the message says; the node is retried automatically", "nothing: it continues on its own"
	for _, tt := range []struct {
		name, state, reason string
		op                  Operation
		want                string
	}{
		{"deferred because of the plugin of another gr", "pending", "Deferred", Operation{Phase: "Deferred", Reason: "VerifyFailed"}, retried},
		{"deferred before it touched anything", "pending", "Deferred", Operation{Phase: "Deferred", Reason: "OperationDeadline"}, retried},
		{"deferred because of a pod", "pending", "Deferred", Operation{Phase: "Deferred", Reason: "DrainTimeout"}, "move the pod that the message names; the node is retried automatically"},
		{"deferred because of what the node lacks", "pending", "Deferred", Operation{Phase: "Deferred", Reason: "PrecheckFailed"}, "provide what the message says the node lacks"},
		{"the node stays cordoned", "pending", "Deferred", Operation{Phase: "Deferred", Reason: "OperationDeadline", KeptCordoned: true}, "kubectl gcu abort n, or kubectl gcu task retry n TASK"},
		{"the node waits for something else since", "pending", "Queued", Operation{Phase: "Deferred", Reason: "DrainTimeout"}, itself},
		{"it has not ended", "in-flight", "VerifyFailed", Operation{Phase: "Running", Reason: "VerifyFailed", Task: "n_driver_verify"}, "look at what the message names on the node, then kubectl gcu task retry n driver_verify"},
	} {
		if n := (Node{Name: "n", State: tt.state, Reason: tt.reason, Operation: &tt.op}).advised("g"); n.Do != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, n.Do, tt.want)
		}
	}
}

// A node with a deferred operation that is something else by now, as the counts have it, is not listed as deferred too.
func TestADeferredNodeIsListedAsWhatItIs(t *testing.T) {
	for name, tt := range map[string]struct {
		edit func(*topsv1.DaemonRolloutStatus, *topsv1.NodeUpgrade)
		want []string
	}{
		"deferred": {func(*topsv1.DaemonRolloutStatus, *topsv1.NodeUpgrade) {}, []string{"pending Deferred"}},
		"failed": {func(s *topsv1.DaemonRolloutStatus, _ *topsv1.NodeUpgrade) {
			s.Failed = []topsv1.NodeNote{{Node: "a", Reason: "CrashLooping"}}
		}, []string{"failed CrashLooping"}},
		"offline": {func(s *topsv1.DaemonRolloutStatus, _ *topsv1.NodeUpgrade) {
			s.Skipped = []topsv1.NodeNote{{Node: "a", Reason: "NodeOffline"}}
		}, []string{"skipped NodeOffline"}},
		"in flight": {func(s *topsv1.DaemonRolloutStatus, _ *topsv1.NodeUpgrade) {
			s.InFlight = []topsv1.NodeSlot{{Node: "a", Step: "Replacing", Since: world.Ago(0)}}
		}, nil},
		"held": {func(_ *topsv1.DaemonRolloutStatus, u *topsv1.NodeUpgrade) {
			u.Annotations = map[string]string{topsv1.AnnotationHold: ""}
		}, nil},
		"held, and kept cordoned": {func(_ *topsv1.DaemonRolloutStatus, u *topsv1.NodeUpgrade) {
			u.Annotations, u.Status.Operation.Held = map[string]string{topsv1.AnnotationHold: ""}, true
		}, []string{"pending Deferred"}},
	} {
		u := world.NodeUpgrade("a")
		u.Status.Operation = &topsv1.OperationStatus{ID: "x", Rollout: "/", Revision: "r", Phase: topsv1.OperationDeferred, Reason: "DrainTimeout"}
		dro := &topsv1.DaemonRollout{Status: topsv1.DaemonRolloutStatus{Revision: "r"}}
		tt.edit(&dro.Status, u)
		var got []string
		for _, n := range troubled("g", dro, []topsv1.NodeUpgrade{*u}, world.Epoch) {
			got = append(got, n.State+" "+n.Reason)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
