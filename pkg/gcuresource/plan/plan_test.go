package plan

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

// summaryOf describes what a plan does, one line per component.
func summaryOf(plan Plan) []string {
	var lines []string
	for _, s := range plan.Steps {
		line := s.Component + ":"
		for _, d := range s.Apply {
			line += " " + d.Ref.Kind
		}
		if s.Create {
			line += " (new)"
		}
		if s.Waits != "" {
			line += " " + s.Waits
		}
		if s.Failure != nil {
			line += " failed " + s.Failure.Reason
		}
		lines = append(lines, line)
	}
	for _, o := range plan.Delete {
		lines = append(lines, "delete "+o.Ref.String())
	}
	return lines
}

// leaving is a pod on a node that should have been gone for some time.
func leaving(node string, since time.Duration) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: ptr.To(metav1.NewTime(world.Noon.Add(-since)))}, Spec: corev1.PodSpec{NodeName: node}}
}

// No event reports that a pod is stuck; one does report what else a component waits for.
func TestAPlanIsDecidedAgainWhenAPodOfAFormerDaemonSetMayBeStuck(t *testing.T) {
	both := topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}, Toolkit: &topsv1.BaseFields{}}
	former := func(o *world.World) { o.Former = map[string][]*corev1.Pod{"driver": {leaving("node-1", 0)}} }
	for name, tt := range map[string]struct {
		given func(*world.World)
		want  time.Duration
	}{
		"a pod of a former DaemonSet": {former, stuckAfter},
		"an earlier component":        {func(o *world.World) { o.Create("driver") }, 0},
	} {
		o := world.New(t, world.NewGR(both), 2)
		tt.given(o)
		if got := Decide(o.Observation, world.Noon).Wait; got != tt.want {
			t.Errorf("%s: decided again after %s, want %s", name, got, tt.want)
		}
	}
}

// The clock of the API server, which writes when the pods were deleted, may be hours from that of the manager.
func TestPodsOfAFormerDaemonSetAreWaitedForByTheClockOfTheManager(t *testing.T) {
	const waits = "driver: (new) waiting until the pods of a former DaemonSet are gone on node-1"
	for _, ahead := range []time.Duration{-3 * time.Hour, 0, 3 * time.Hour} {
		o := world.New(t, world.NewGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}}), 2)
		o.StateTimes = &daemonset.StateTimes{Ahead: func(time.Time) time.Duration { return ahead }}
		pod := leaving("node-1", ahead-30*time.Second)
		pod.DeletionGracePeriodSeconds = ptr.To[int64](30)
		o.Former = map[string][]*corev1.Pod{"driver": {pod}}
		for _, step := range []struct {
			after time.Duration
			want  string
		}{{0, waits}, {30*time.Second + stuckAfter, waits}, {31*time.Second + stuckAfter, "driver: DaemonSet (new)"}} {
			if diff := cmp.Diff([]string{step.want}, summaryOf(Decide(o.Observation, world.Noon.Add(step.after)))); diff != "" {
				t.Errorf("%s ahead, %s after the deletion (-want +got):\n%s", ahead, step.after, diff)
			}
		}
	}
}

func TestDecide(t *testing.T) {
	three := topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}, Toolkit: &topsv1.BaseFields{}, Exporter: &topsv1.BaseFields{}}
	for _, tc := range []struct {
		name  string
		spec  topsv1.GcuResourceSpec
		given func(*world.World)
		want  []string
	}{
		{"contract 51: creates only the first component, its DaemonSet last", topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}, GFD: &topsv1.BaseFields{}},
			func(*world.World) {},
			[]string{"nfd: CustomResourceDefinition ServiceAccount DaemonSet (new)", "gfd: (new) waiting for nfd"}},
		{"contract 49: a role that is not installed is not made", topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}, GFD: &topsv1.BaseFields{}},
			func(o *world.World) { o.Lose("nfd", "ClusterRole", "nfd-clusterrole") },
			[]string{"nfd: failed NotInstalled", "gfd: (new) waiting for nfd"}},
		{"contract 51: a new DaemonSet without pods holds up the next", three,
			func(o *world.World) { o.Create("driver") },
			[]string{"driver:", "toolkit: (new) waiting for driver", "exporter: (new) waiting for driver"}},
		{"waits for the pods of a former DaemonSet", topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}},
			func(o *world.World) { o.Former = map[string][]*corev1.Pod{"driver": {leaving("node-1", stuckAfter)}} },
			[]string{"driver: (new) waiting until the pods of a former DaemonSet are gone on node-1"}},
		{"not for one that is stuck", topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}},
			func(o *world.World) {
				o.Former = map[string][]*corev1.Pod{"driver": {leaving("node-1", stuckAfter+time.Second)}}
			},
			[]string{"driver: DaemonSet (new)"}},
		{"contract 51: creates the next when the one before runs", three,
			func(o *world.World) { o.Run("driver") },
			[]string{"driver:", "toolkit: DaemonSet (new)", "exporter: (new) waiting for toolkit"}},
		{"contract 51: one missing pod on a Ready node holds up the next", three,
			func(o *world.World) { o.Run("driver"); o.Component("driver").Pods = o.Component("driver").Pods[1:] },
			[]string{"driver:", "toolkit: (new) waiting for driver", "exporter: (new) waiting for driver"}},
		{"a node that is not Ready holds up nobody", three,
			func(o *world.World) { o.Run("driver"); o.Broken("driver", "node-2", ""); o.Off("node-2") },
			[]string{"driver:", "toolkit: DaemonSet (new)", "exporter: (new) waiting for toolkit"}},
		{"contract 51: a template the DaemonSet controller has not seen holds up the next", three,
			func(o *world.World) { o.Run("driver"); o.Component("driver").DaemonSet.Generation = 2 },
			[]string{"driver:", "toolkit: (new) waiting for driver", "exporter: (new) waiting for driver"}},
		{"a GCU node that is not labeled yet holds up the next", three,
			func(o *world.World) {
				o.Run("driver")
				o.Nodes = append(o.Nodes, world.GCUNode("node-3"))
				delete(o.Node("node-3").Labels, topsv1.LabelGcuPresent)
			},
			[]string{"driver:", "toolkit: (new) waiting for driver", "exporter: (new) waiting for driver"}},
		{"a node of the control plane that admission keeps from the label holds up no other node", three,
			func(o *world.World) { o.Run("driver"); o.Guard("node-3") },
			[]string{"driver:", "toolkit: DaemonSet (new)", "exporter: (new) waiting for toolkit"}},
		{"one that is allowed is waited for", three,
			func(o *world.World) {
				o.Run("driver")
				o.Guard("node-3")
				o.Node("node-3").Labels["node-restriction.kubernetes.io/gcu-components"] = "allowed"
			},
			[]string{"driver:", "toolkit: (new) waiting for driver", "exporter: (new) waiting for driver"}},
		{"a Job that is not complete, and not the one that is wanted, is deleted first", topsv1.GcuResourceSpec{Volcano: &topsv1.VolcanoSpec{}},
			func(o *world.World) { o.Run("volcano"); o.Fail("volcano", "another") },
			[]string{"volcano: failed JobFailed", "delete Job volcano-system/volcano-admission-init"}},
		{"one that is wanted is left to the user", topsv1.GcuResourceSpec{Volcano: &topsv1.VolcanoSpec{}},
			func(o *world.World) { o.Run("volcano"); o.Fail("volcano", "") },
			[]string{"volcano: failed JobFailed"}},
		{"until a node has a GCU only the first component that needs one is created", three,
			func(o *world.World) { o.Create("driver"); o.Nodes = nil },
			[]string{"driver:", "toolkit: (new) waiting for driver, which no node runs yet", "exporter: (new) waiting for driver, which no node runs yet"}},
		{"new templates reach all existing components at once, whatever runs", three,
			func(o *world.World) { o.Create("driver", "toolkit", "exporter"); clear(o.Applied) },
			[]string{"driver: DaemonSet", "toolkit: DaemonSet", "exporter: Service DaemonSet"}},
		{"nothing to do when everything is as applied", three,
			func(o *world.World) { o.Run("driver", "toolkit", "exporter") },
			[]string{"driver:", "toolkit:", "exporter:"}},
		{"an object that is gone comes back", three,
			func(o *world.World) {
				o.Run("driver", "toolkit", "exporter")
				delete(o.Component("exporter").Live, o.Component("exporter").Objects[1].Ref)
			},
			[]string{"driver:", "toolkit:", "exporter: Service"}},
		{"a foreign object fails the component and holds up the next", three,
			func(o *world.World) {
				o.Run("driver")
				c := o.Component("toolkit")
				o.Create("toolkit")
				c.DaemonSet = nil
				c.Live[c.DaemonSetRef()].OwnerReferences = nil
			},
			[]string{"driver:", "toolkit: failed ObjectConflict", "exporter: (new) waiting for toolkit"}},
		{"a plugin is first created when containers get cards", topsv1.GcuResourceSpec{Toolkit: &topsv1.BaseFields{}, DevicePlugin: &topsv1.BaseFields{}},
			func(o *world.World) { o.Run("toolkit"); o.Report("node-2", world.Runc) },
			[]string{"toolkit:", "devicePlugin: (new) waiting until docker or containerd is restarted on one of these nodes: node-2"}},
		{"a plugin that exists is applied whatever containers get", topsv1.GcuResourceSpec{Toolkit: &topsv1.BaseFields{}, DevicePlugin: &topsv1.BaseFields{}},
			func(o *world.World) {
				o.Run("toolkit")
				o.Create("devicePlugin")
				clear(o.Applied)
				o.Report("node-2", world.Runc)
			},
			[]string{"toolkit: DaemonSet", "devicePlugin: DaemonSet"}},
		{"contract 24: what the spec no longer asks for is deleted", topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}},
			func(o *world.World) {
				o.Run("driver")
				o.Owned = append(o.Owned, state.Owned{Ref: component.Ref{GroupVersionKind: component.DaemonSetKind, Namespace: "kube-system", Name: "exp"}, Component: "exporter"})
			},
			[]string{"driver:", "delete DaemonSet kube-system/exp"}},
		{"a renamed component waits until the old one is deleted", topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}},
			func(o *world.World) {
				o.Owned = []state.Owned{{Ref: component.Ref{GroupVersionKind: component.DaemonSetKind, Namespace: "kube-system", Name: "older"}, Component: "driver"}}
			},
			[]string{"driver: (new) waiting until DaemonSet kube-system/older is deleted", "delete DaemonSet kube-system/older"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := world.New(t, world.NewGR(tc.spec), 2)
			tc.given(obs)
			if diff := cmp.Diff(tc.want, summaryOf(Decide(obs.Observation, world.Noon))); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimeThatIsMissingSetsATimer(t *testing.T) {
	obs := world.New(t, world.NewGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}, GFD: &topsv1.BaseFields{}}), 1)
	obs.Run("driver")
	obs.Component("driver").DaemonSet.Spec.MinReadySeconds = 90
	plan := Decide(obs.Observation, world.Noon)
	if plan.Wait != 30*time.Second || plan.Steps[1].Waits != "waiting for driver" {
		t.Errorf("got wait %s, step %+v", plan.Wait, plan.Steps[1])
	}
	if plan = Decide(obs.Observation, world.Noon.Add(30*time.Second)); plan.Wait != 0 || plan.Steps[1].Waits != "" {
		t.Errorf("after the time: got wait %s, step %+v", plan.Wait, plan.Steps[1])
	}
}

func TestWhatReplicasHoldUp(t *testing.T) {
	spec := topsv1.GcuResourceSpec{Nightingale: &topsv1.NightingaleSpec{}, GFD: &topsv1.BaseFields{}}
	obs := world.New(t, world.NewGR(spec), 1)
	obs.Run("nightingale")
	obs.Component("nightingale").Deployments["mysql"].Status.AvailableReplicas = 0
	if diff := cmp.Diff([]string{"nightingale:", "gfd: (new) waiting for nightingale"}, summaryOf(Decide(obs.Observation, world.Noon))); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	obs.Component("nightingale").Deployments["mysql"].Status.AvailableReplicas = 1
	obs.Lose("nightingale", "Deployment", "agentd")
	if diff := cmp.Diff([]string{"nightingale: Deployment", "gfd: (new) waiting for nightingale"}, summaryOf(Decide(obs.Observation, world.Noon))); diff != "" {
		t.Errorf("a part that is missing comes at once, plan (-want +got):\n%s", diff)
	}
}

func TestWebhooksComeLastAndGoFirst(t *testing.T) {
	obs := world.New(t, world.NewGR(topsv1.GcuResourceSpec{Volcano: &topsv1.VolcanoSpec{}}), 1)
	webhooks := func(list []component.Desired) (n int) {
		for _, d := range list {
			if d.Ref.Webhook() {
				n++
			}
		}
		return n
	}
	apply := func() []component.Desired { return Decide(obs.Observation, world.Noon).Steps[0].Apply }
	if first := apply(); webhooks(first) != 0 || first[0].Ref.Kind != "Namespace" {
		t.Errorf("applied first: %v", first)
	}
	obs.Run("volcano")
	for _, d := range obs.Component("volcano").Objects {
		if d.Ref.Webhook() {
			obs.Lose("volcano", d.Ref.Kind, d.Ref.Name)
		}
	}
	obs.Component("volcano").Deployments["volcano-scheduler"].Status.AvailableReplicas = 0
	if list := apply(); len(list) != 0 {
		t.Errorf("applied while a part does not run: %v", list)
	}
	obs.Component("volcano").Deployments["volcano-scheduler"].Status.AvailableReplicas = 1
	if list := apply(); len(list) != 7 || webhooks(list) != 7 {
		t.Errorf("applied at last: %v", list)
	}
	gone := world.New(t, world.NewGR(topsv1.GcuResourceSpec{}), 1)
	gone.Owned = obs.Owned
	for _, o := range Decide(gone.Observation, world.Noon).Delete {
		if !o.Ref.Webhook() {
			t.Errorf("%s goes before the webhooks", o.Ref)
		}
	}
	for _, o := range DecideTeardown(obs.Observation).Delete {
		if !o.Ref.Webhook() {
			t.Errorf("%s goes before the webhooks when the gr is deleted", o.Ref)
		}
	}
}
