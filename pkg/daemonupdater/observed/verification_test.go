package observed

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/test/fixture"
)

// withRuntime returns a NodeUpgrade of node a whose engine has a default runtime.
func withRuntime(name string, history ...topsv1.OperationRecord) *topsv1.NodeUpgrade {
	u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	u.Status.Host = &topsv1.HostReport{Runtime: &topsv1.RuntimeReport{Engine: "containerd", Default: name}}
	u.Status.History = history
	return u
}

// touched is an operation on the toolkit that touched the node and ended.
func touched(phase topsv1.OperationPhase, reason string) topsv1.OperationRecord {
	r := ended("x", phase, reason)
	r.Touched = true
	r.Result = topsv1.OperationResult{Done: []string{"a_toolkit_replace"}, Undo: []string{"a_node_restart-runtime"}}
	return r
}

func untouched(r topsv1.OperationRecord) topsv1.OperationRecord {
	r.Touched = false
	return r
}

func of(component string, r topsv1.OperationRecord) topsv1.OperationRecord {
	r.Result = topsv1.OperationResult{Undo: []string{"a_" + component + "_replace"}}
	return r
}

func TestWhatAnOperationDidNotVerify(t *testing.T) {
	timeout := touched(topsv1.OperationDeferred, operation.ReasonDrainTimeout)
	done := untouched(touched(topsv1.OperationDone, ""))
	for _, tt := range []struct {
		name    string
		history []topsv1.OperationRecord
		want    bool
	}{
		{"nothing happened", nil, false},
		{"an operation was put off after it touched the node", []topsv1.OperationRecord{timeout}, true},
		{"or aborted", []topsv1.OperationRecord{touched(topsv1.OperationAborted, operation.ReasonAborted)}, true},
		{"before it touched the node", []topsv1.OperationRecord{untouched(timeout)}, false},
		{"and another one before it touched the node", []topsv1.OperationRecord{timeout, untouched(timeout)}, true},
		{"and another one is done", []topsv1.OperationRecord{timeout, done}, false},
		{"after one that was done", []topsv1.OperationRecord{done, timeout}, true},
		{"and one of another component is done", []topsv1.OperationRecord{timeout, of("driver", done)}, true},
		{"one of another component was put off", []topsv1.OperationRecord{of("driver", timeout)}, false},
		{"one that failed, and whose node a person may have returned to service", []topsv1.OperationRecord{touched(topsv1.OperationFailed, operation.ReasonVerifyFailed)}, true},
		{"or a rollback that failed", []topsv1.OperationRecord{touched(topsv1.OperationQuarantined, operation.ReasonVerifyFailed)}, true},
		{"and another one was put off before it touched the node", []topsv1.OperationRecord{touched(topsv1.OperationFailed, operation.ReasonVerifyFailed), untouched(timeout)}, true},
		{"and another one is done after that", []topsv1.OperationRecord{touched(topsv1.OperationFailed, operation.ReasonVerifyFailed), done}, false},
		{"what was left to the administrator is done by him", []topsv1.OperationRecord{touched(topsv1.OperationDeferred, operation.ReasonLeftToAdministrator)}, false},
	} {
		ds := fixture.ComponentOf("toolkit")
		s, node := &State{Rollout: &topsv1.DaemonRollout{}}, fixture.Node("a")
		if got := IsUnverified(s, node, withRuntime("enflame", tt.history...), Member{DaemonSet: ds}); got != tt.want {
			t.Errorf("%s: unverified is %t", tt.name, got)
		}
		ds.CreationTimestamp = fixture.Ago(time.Second)
		if IsUnverified(s, node, withRuntime("enflame", tt.history...), Member{DaemonSet: ds}) {
			t.Errorf("%s, for a former DaemonSet of the name: unverified", tt.name)
		}
	}
}

// Somebody may delete the NodeUpgrade of a node on which an operation failed, and with it what its history shows.
func TestAFailureInTheLedgerShowsWhatAnOperationDidNotVerify(t *testing.T) {
	failure := func(reason string, targets ...topsv1.RevisionTarget) *topsv1.DaemonRollout {
		r := &topsv1.DaemonRollout{}
		r.Status.Failed = []topsv1.NodeNote{{Node: "a", Reason: reason, MachineID: "m", Targets: targets}}
		return r
	}
	operationFailed := string(rollout.ReasonOperationFailed)
	target := topsv1.RevisionTarget{DaemonSet: "kube-system/enflame-toolkit", Hash: fixture.NewHash}
	former, other := target, target
	former.Hash, other.DaemonSet = fixture.OldHash, "kube-system/enflame-driver"
	resumed := failure(operationFailed, target)
	resumed.Annotations = map[string]string{topsv1.AnnotationResume: "now"}
	elsewhere := failure(operationFailed, target)
	elsewhere.Status.Failed[0].Node = "b"
	done, begun := touched(topsv1.OperationDone, ""), untouched(touched(topsv1.OperationDeferred, operation.ReasonDrainTimeout))
	for _, tt := range []struct {
		name    string
		rollout *topsv1.DaemonRollout
		machine string
		upgrade *topsv1.NodeUpgrade
		want    bool
	}{
		{"it failed, and its NodeUpgrade is gone", failure(operationFailed, other, target), "m", nil, true},
		{"it was quarantined", failure(string(rollout.ReasonQuarantined), target), "m", nil, true},
		{"a person aborted it", failure(string(rollout.ReasonOperationAborted), target), "m", nil, true},
		{"a pod crashed, which recovers by itself", failure(string(rollout.ReasonCrashLooping), target), "m", nil, false},
		{"its NodeUpgrade was created again", failure(operationFailed, target), "m", withRuntime("enflame"), true},
		{"another operation has not touched the node yet", failure(operationFailed, target), "m", withRuntime("enflame", begun), true},
		{"one of another component is done", failure(operationFailed, target), "m", withRuntime("enflame", of("driver", done)), true},
		{"another operation is done", failure(operationFailed, target), "m", withRuntime("enflame", done), false},
		{"another revision failed", failure(operationFailed, former), "m", nil, false},
		{"another member failed", failure(operationFailed, other), "m", nil, false},
		{"another node failed", elsewhere, "m", nil, false},
		{"another machine failed", failure(operationFailed, target), "n", nil, false},
		{"a machine failed that is not known any more", failure(operationFailed, target), "", nil, true},
		{"a person resumes the rollout", resumed, "m", nil, false},
	} {
		node := fixture.Node("a")
		node.Status.NodeInfo.MachineID = tt.machine
		o := worldOf([]memberAndPods{toolkitAt(fixture.NewHash)})
		o.Rollout = tt.rollout
		o.Nodes["a"], o.Upgrades["a"] = node, tt.upgrade
		if n := o.RolloutNode("a", "", Zones{}, fixture.Epoch); n.Pods[0].Unverified != tt.want {
			t.Errorf("%s: unverified is %t", tt.name, n.Pods[0].Unverified)
		}
	}
}

func TestAPluginWithoutCardsIsSeen(t *testing.T) {
	plugin, exporter, nfd := fixture.ComponentOf("devicePlugin"), fixture.ComponentOf("exporter"), fixture.ComponentOf("nfd")
	var members []memberAndPods
	for _, ds := range []*appsv1.DaemonSet{plugin, exporter, nfd} {
		pod := fixture.PodOn(ds, "a", fixture.NewHash)
		pod.Status.StartTime = ptr.To(fixture.Ago(time.Hour))
		members = append(members, memberWith(ds, pod))
	}
	u := withRuntime("enflame")
	u.Status.Host.Devices, u.Status.Host.Runtime.StartTime = ptr.To[int32](8), ptr.To(fixture.Ago(time.Minute))
	for _, missing := range []bool{false, true} {
		if missing {
			members[0].pods = nil
		}
		n := seen{members: members, nodes: []*corev1.Node{fixture.Node("a")}, upgrades: []*topsv1.NodeUpgrade{u}}.observe().fleet.Node("a")
		if n.Pods[0].NoCards == missing || n.Pods[1].NoCards == missing || n.Pods[2].NoCards {
			t.Errorf("missing: %t; pods %+v, want the plugin without cards, and the exporter beside it", missing, n.Pods)
		}
		if !n.Pods[0].OffersNone || n.Pods[1].OffersNone {
			t.Errorf("missing: %t; pods %+v, want the plugin to offer none", missing, n.Pods)
		}
	}
}

// The names under which a plugin offers cards may be those of the user.
func TestAPluginOffersCardsUnderTheNamesOfTheUser(t *testing.T) {
	plugin := fixture.ComponentOf("devicePlugin")
	plugin.Spec.Template.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "CUSTOM_REGISTER_RESOURCE", Value: "a.com/x"}}}}
	node := fixture.Node("a")
	node.Status.Allocatable = corev1.ResourceList{"a.com/x": resource.MustParse("8")}
	u := withRuntime("enflame")
	u.Status.Host.Devices, u.Status.Host.Runtime.StartTime = ptr.To[int32](8), ptr.To(fixture.Ago(time.Minute))
	members := []memberAndPods{memberWith(plugin, fixture.PodOn(plugin, "a", fixture.NewHash))}
	if n := (seen{members: members, nodes: []*corev1.Node{node}, upgrades: []*topsv1.NodeUpgrade{u}}).observe().fleet.Node("a"); n.Pods[0].OffersNone {
		t.Error("its slot would be kept for cards that are offered")
	}
}

// A group without the plugin sees what its pods lack too, once the agent knows since when the default is right.
func TestAnExporterWithoutCardsIsSeenWithoutThePlugin(t *testing.T) {
	exporter := fixture.ComponentOf("exporter")
	pod := fixture.PodOn(exporter, "a", fixture.NewHash)
	pod.Status.StartTime = ptr.To(fixture.Ago(time.Hour))
	node := fixture.Node("a")
	node.Status.Allocatable = corev1.ResourceList{"enflame.com/gcu": resource.MustParse("8")}
	u := withRuntime("enflame")
	u.Status.Host.Time, u.Status.Host.Devices, u.Status.Host.Runtime.StartTime = fixture.Ago(0), ptr.To[int32](8), ptr.To(fixture.Ago(time.Minute))
	for _, since := range []*metav1.Time{nil, ptr.To(fixture.Ago(time.Minute))} {
		u.Status.Host.Runtime.DefaultSince = since
		n := seen{members: []memberAndPods{memberWith(exporter, pod)}, nodes: []*corev1.Node{node}, upgrades: []*topsv1.NodeUpgrade{u}}.observe().fleet.Node("a")
		if n.Pods[0].NoCards != (since != nil) {
			t.Errorf("default since %v: without cards is %t", since, n.Pods[0].NoCards)
		}
	}
}

func TestWhichGroupRestartsTheRuntime(t *testing.T) {
	left := touched(topsv1.OperationDeferred, operation.ReasonLeftToAdministrator)
	timeout := touched(topsv1.OperationDeferred, operation.ReasonDrainTimeout)
	for _, tt := range []struct {
		name    string
		agent   *topsv1.AgentStatus
		runtime string
		history []topsv1.OperationRecord
		needs   bool
		says    string
	}{
		{"the runtime is right", &topsv1.AgentStatus{RestartsRuntime: ptr.To(false)}, "enflame", nil, false, ""},
		{"an agent that restarts it", &topsv1.AgentStatus{RestartsRuntime: ptr.To(true)}, "runc", nil, true, ""},
		{"one that does so again", &topsv1.AgentStatus{RestartsRuntime: ptr.To(true)}, "runc", []topsv1.OperationRecord{left}, true, ""},
		{"one that does not", &topsv1.AgentStatus{RestartsRuntime: ptr.To(false)}, "runc", nil, true, "systemctl restart containerd"},
		{"one that was asked", &topsv1.AgentStatus{RestartsRuntime: ptr.To(false)}, "runc", []topsv1.OperationRecord{left}, true, "said why"},
		{"one that does not say", &topsv1.AgentStatus{}, "runc", nil, true, ""},
		{"one that does not say and was asked", nil, "runc", []topsv1.OperationRecord{left}, true, "said why"},
		{"one that restarted it later", nil, "runc", []topsv1.OperationRecord{left, timeout}, true, ""},
		{"one that was asked for other things later", nil, "runc", []topsv1.OperationRecord{left, of("driver", timeout)}, true, "said why"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := withRuntime(tt.runtime, tt.history...)
			u.Status.Agent = tt.agent
			o := seen{members: []memberAndPods{toolkitAt(fixture.NewHash)}, nodes: []*corev1.Node{fixture.Node("a")}, upgrades: []*topsv1.NodeUpgrade{u}}.observe()
			n := o.fleet.Node("a")
			if n.NeedsRestart != tt.needs || !strings.Contains(n.LeftToAdministrator, tt.says) || (tt.says == "") != (n.LeftToAdministrator == "") {
				t.Errorf("needs a restart: %t, left to the administrator: %q", n.NeedsRestart, n.LeftToAdministrator)
			}
		})
	}
}

func TestAnOperationThatRestartsTheRuntime(t *testing.T) {
	for _, tt := range []struct {
		name, runtime, plugin string
		left                  string
		job                   []topsv1.JobStage
	}{
		{"it replaces no pod", "runc", fixture.NewHash, "", restartJob},
		{"not even an outdated plugin", "runc", fixture.OldHash, "", restartJob},
	} {
		t.Run(tt.name, func(t *testing.T) {
			plugin := fixture.ComponentOf("devicePlugin")
			members := []memberAndPods{toolkitAt(fixture.NewHash), memberWith(plugin, fixture.PodOn(plugin, "a", tt.plugin))}
			o := seen{members: members, nodes: []*corev1.Node{fixture.Node("a")}, upgrades: []*topsv1.NodeUpgrade{withRuntime(tt.runtime)}}.observe()
			in := inputFrom(o)
			in.Settings.Strategy = rollout.RestartsOnly
			op, err := o.NewOperation(&in, testBook, o.fleet.Node("a"), "op")
			if err != nil || !slices.EqualFunc(op.Job, tt.job, slices.Equal[topsv1.JobStage]) || len(op.Targets) != 1 || op.Targets[0].Previous != "" {
				t.Errorf("operation %+v, %v; want job %v", op, err, tt.job)
			}
		})
	}
}

var restartJob = []topsv1.JobStage{{"a_node_precheck"}, {"a_toolkit_prepull"}, {"a_node_cordon"}, {"a_node_evict"}, {"a_toolkit_replace"},
	{"a_node_restart-runtime"}, {"a_runtime_verify"}, {"a_allocatable_verify"}, {"a_node_soak"}, {"a_node_uncordon"}}

func TestWhenRuntimesAreRestartedWithoutAStrategy(t *testing.T) {
	stored := func(strategy string) *topsv1.DaemonRollout {
		r := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}
		r.Status.Strategy = strategy
		return r
	}
	for _, tt := range []struct {
		name      string
		component string
		needs     bool
		paused    string
		rollout   *topsv1.DaemonRollout
		want      daemonset.Strategy
		unmanaged bool
	}{
		{"no runtime needs it", "toolkit", false, "", &topsv1.DaemonRollout{}, daemonset.NoStrategy, true},
		{"a runtime needs it", "toolkit", true, "", &topsv1.DaemonRollout{}, rollout.RestartsOnly, false},
		{"a gr without a toolkit", "driver", true, "", &topsv1.DaemonRollout{}, daemonset.NoStrategy, true},
		{"they have begun", "toolkit", false, "", stored(string(rollout.RestartsOnly)), rollout.RestartsOnly, false},
		{"an upgrade whose strategy was removed ends first", "toolkit", true, "", stored("AdvancedRollingUpdate"), daemonset.NoStrategy, false},
		{"a pause is heeded", "toolkit", true, "true", &topsv1.DaemonRollout{}, rollout.RestartsOnly, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ds := fixture.ComponentOf(tt.component)
			delete(ds.Annotations, topsv1.AnnotationUpdateStrategy)
			if tt.paused != "" {
				fixture.Annotate(ds, topsv1.AnnotationPaused, tt.paused)
			}
			o := worldOf([]memberAndPods{memberWith(ds)})
			o.Rollout, o.NeedsRestart = tt.rollout, tt.needs
			in := inputFrom(o)
			if in.Settings.Strategy != tt.want || o.Unmanaged() != tt.unmanaged || in.Settings.Paused != (tt.paused == "true") {
				t.Errorf("settings %+v, unmanaged: %t", in.Settings, o.Unmanaged())
			}
			fixture.Annotate(ds, topsv1.AnnotationUpdateStrategy, string(daemonset.AdvancedRollingUpdate))
			if same := inputFrom(o).Revision == in.Revision; same != (tt.want != rollout.RestartsOnly) {
				t.Errorf("an upgrade to the same targets has revision %s: %t", in.Revision, same)
			}
		})
	}
}
