package status

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

// next returns the status after one pass at noon.
func next(w *world.World) topsv1.GcuResourceStatus {
	return Describe(w.Observation, plan.Decide(w.Observation, world.Noon), world.Noon)
}

// words returns "component=status" for each component.
func words(status topsv1.GcuResourceStatus) []string {
	var list []string
	for _, rs := range status.ResourceStatuses {
		list = append(list, rs.Name+"="+rs.Status)
	}
	return list
}

func TestStatusOfADeployment(t *testing.T) {
	spec := topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}, Driver: &topsv1.BaseFields{}, GFD: &topsv1.BaseFields{}}
	for _, tc := range []struct {
		name    string
		spec    topsv1.GcuResourceSpec
		given   func(*world.World)
		phase   string
		ready   string
		words   []string
		deploy  topsv1.ActionCondition
		degrade string
	}{
		{"contract 21 and 43: an empty spec is Running at once", topsv1.GcuResourceSpec{}, func(*world.World) {}, "Running", "0/0", nil,
			success("deploy"), "False AsExpected: nothing is wrong"},
		{"contract 39 and 43: a component that waits is deploying and says for whom", spec, func(o *world.World) { o.Run("nfd"); o.Create("driver") },
			"deploying", "1/3", []string{"nfd=Running", "driver=deploying", "gfd=deploying"},
			topsv1.ActionCondition{Action: "deploy", Status: "deploying", Reason: ReasonDeploying, Progress: 33,
				Message: "1 of 3 components run; driver: waiting for pods on 6 of 6 nodes: node-1, node-2, node-3, node-4, node-5 and 1 more"},
			"False AsExpected: nothing is wrong"},
		{"what is wrong with a pod is told", spec, func(o *world.World) {
			o.Run("nfd", "driver", "gfd")
			o.Broken("driver", "node-3", "CrashLoopBackOff")
		}, "deploying", "2/3", []string{"nfd=Running", "driver=deploying", "gfd=Running"},
			topsv1.ActionCondition{Action: "deploy", Status: "deploying", Reason: ReasonDeploying, Progress: 66,
				Message: "2 of 3 components run; driver: waiting for pods on 1 of 6 nodes: node-3 (main: CrashLoopBackOff)"},
			"False AsExpected: nothing is wrong"},
		{"contract 45: offline nodes do not count", spec, func(o *world.World) { o.Run("nfd", "driver", "gfd"); o.Off("node-1", "node-4") },
			"Running", "3/3", []string{"nfd=Running", "driver=Running", "gfd=Running"}, success("deploy"), "False AsExpected: nothing is wrong"},
		{"a refused apply is told in the API server's words", topsv1.GcuResourceSpec{GFD: &topsv1.BaseFields{}}, func(o *world.World) {
			o.Component("gfd").Failure = &state.Failure{Reason: state.ReasonApplyFailed, Message: "applying DaemonSet: no"}
		}, "failed", "0/1", []string{"gfd=failed"},
			topsv1.ActionCondition{Action: "deploy", Status: "failed", Reason: ReasonFailed, Message: "gfd: applying DaemonSet: no"},
			"True ApplyFailed: gfd: applying DaemonSet: no"},
		{"what keeps failing and is no component's own is told", topsv1.GcuResourceSpec{}, func(o *world.World) {
			o.ReconcileFailure = &state.Failure{Reason: ReasonReconcileFailed, Message: "deleting Service kube-system/x: no leader"}
		}, "Running", "0/0", nil, success("deploy"), "True ReconcileFailed: deleting Service kube-system/x: no leader"},
		{"an object that is being deleted is not there for long", topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}}, func(o *world.World) {
			o.Run("nfd")
			for ref, live := range o.Component("nfd").Live {
				if ref.Kind == "CustomResourceDefinition" {
					live.DeletionTimestamp = &metav1.Time{Time: world.Noon}
				}
			}
		}, "deploying", "0/1", []string{"nfd=deploying"},
			topsv1.ActionCondition{Action: "deploy", Status: "deploying", Reason: ReasonDeploying, Message: "0 of 1 component run; nfd: " +
				"waiting for CustomResourceDefinition nodefeaturerules.nfd.k8s-sigs.io (being deleted, recreated afterwards)"},
			"False AsExpected: nothing is wrong"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := world.New(t, world.NewGR(tc.spec), 6)
			tc.given(obs)
			got := next(obs)
			if got.Phase != tc.phase || got.ReadyResource != tc.ready {
				t.Errorf("got %s %s, want %s %s", got.ReadyResource, got.Phase, tc.ready, tc.phase)
			}
			if diff := cmp.Diff(tc.words, words(got)); diff != "" {
				t.Errorf("components (-want +got):\n%s", diff)
			}
			tc.deploy.Type = "deploy"
			if diff := cmp.Diff(tc.deploy, world.Action(got, "deploy")); diff != "" {
				t.Errorf("deploy (-want +got):\n%s", diff)
			}
			if got := world.Standard(got, ConditionDegraded); got != tc.degrade {
				t.Errorf("degraded %q, want %q", got, tc.degrade)
			}
			if world.Action(got, "upgrade").Action != "" {
				t.Error("a deployment has no upgrade condition")
			}
		})
	}
}

func TestMessagesNameNodesThatDoNotCount(t *testing.T) {
	obs := world.New(t, world.NewGR(topsv1.GcuResourceSpec{GFD: &topsv1.BaseFields{}}), 8)
	obs.Run("gfd")
	obs.Off("node-1", "node-2", "node-3", "node-4", "node-5", "node-6")
	const want = "6 nodes not Ready and not waited for: node-1, node-2, node-3, node-4, node-5 and 1 more"
	got := next(obs)
	if m := got.ResourceStatuses[0].Message; m != want {
		t.Errorf("component: %q", m)
	}
	if m := world.Standard(got, ConditionReady); m != "True Running: every component runs on all its Ready nodes; "+want {
		t.Errorf("Ready: %q", m)
	}
	if len(got.ClusterGCUNodes) != 8 {
		t.Errorf("clusterGCUNodes leaves out offline nodes: %v", got.ClusterGCUNodes)
	}
	obs.Nodes = nil
	if m := next(obs).ResourceStatuses[0].Message; m != "no node matches node selector enflame.com/gcu.present=true, nothing to run" {
		t.Errorf("without nodes: %q", m)
	}
}

func TestOwnResourcesListsWhatExistsInTheSeedsOrder(t *testing.T) {
	obs := world.New(t, world.NewGR(topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{Name: "enflame-node-feature-discovery"}}), 1)
	if got := next(obs).ResourceStatuses[0].OwnResources; len(got) != 2 {
		t.Errorf("only the role and its binding exist, but %v is listed", got)
	}
	obs.Run("nfd")
	want := []topsv1.ResourceInfo{
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole", Name: "nfd-clusterrole"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding", Name: "nfd-clusterrolebinding"},
		{Group: "apps", Version: "v1", Kind: "DaemonSet", Name: "enflame-node-feature-discovery"},
		{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition", Name: "nodefeaturerules.nfd.k8s-sigs.io"},
		{Version: "v1", Kind: "ServiceAccount", Name: "nfd-service-account"},
	}
	if diff := cmp.Diff(want, next(obs).ResourceStatuses[0].OwnResources); diff != "" {
		t.Errorf("ownResources (-want +got):\n%s", diff)
	}
}

func TestStatusOfAnUpgrade(t *testing.T) {
	const half = "2 of 4 pods at the newest revision"
	for _, tc := range []struct {
		name        string
		annotations map[string]string
		phase       string
		ready       string
		reason      string
		message     string
		degraded    string
	}{
		{"contract 38, 39 and 43: rolling: the phase is upgrading", map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"},
			"upgrading", "0/2", ReasonUpgrading, half, "False AsExpected: nothing is wrong"},
		{"paused", map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationPaused: "true"},
			"upgrading", "0/2", ReasonPaused, half + "; paused: no new node is started until annotation topsops.enflame.com/paused is removed",
			"False AsExpected: nothing is wrong"},
		{"OTA: available outdated pods leave it Running", map[string]string{topsv1.OpenYurtAnnotationUpdateStrategy: "ota"},
			"Running", "2/2", ReasonWaitingForNodes, half + "; strategy OTA: a node is upgraded only after a request on that node", "False AsExpected: nothing is wrong"},
		{"no strategy: it says what to set", nil, "Running", "2/2", ReasonNoStrategy,
			half + "; no update-strategy annotation: pods are not replaced; set topsops.enflame.com/update-strategy", "False AsExpected: nothing is wrong"},
		{"wrong settings are told and never defaulted",
			map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationMaxUnavailable: "0"},
			"Running", "2/2", "InvalidMaxUnavailable",
			half + `; pods are not replaced: annotation topsops.enflame.com/max-unavailable is "0": set it to a whole number of nodes of at least 1, or to a percentage from 1% to 100%`,
			`True InvalidMaxUnavailable: annotation topsops.enflame.com/max-unavailable is "0": set it to a whole number of nodes of at least 1, or to a percentage from 1% to 100%`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			gr := world.NewGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}, Toolkit: &topsv1.BaseFields{}})
			gr.Annotations = tc.annotations
			obs := world.New(t, gr, 3)
			obs.Run("driver", "toolkit")
			obs.Off("node-3")
			obs.NewTemplate("driver", "node-1")
			obs.NewTemplate("toolkit", "node-1")
			got := next(obs)
			if got.Phase != tc.phase || got.ReadyResource != tc.ready {
				t.Errorf("got %s %s, want %s %s", got.ReadyResource, got.Phase, tc.ready, tc.phase)
			}
			want := topsv1.ActionCondition{Action: "upgrade", Type: "upgrade", Status: "upgrading", Progress: 50, Reason: tc.reason, Message: tc.message}
			if diff := cmp.Diff(want, world.Action(got, "upgrade")); diff != "" {
				t.Errorf("upgrade (-want +got):\n%s", diff)
			}
			if got := world.Standard(got, ConditionDegraded); got != tc.degraded {
				t.Errorf("degraded %q, want %q", got, tc.degraded)
			}
			if world.Action(got, "deploy").Status != "success" {
				t.Errorf("deploy is %v", world.Action(got, "deploy"))
			}
		})
	}
}

// TestAnUpgradeFromEndToEnd walks through the statuses of an upgrade on two nodes, one of which
// is offline until the other is done.
func TestAnUpgradeFromEndToEnd(t *testing.T) {
	gr := world.NewGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}})
	gr.Annotations[topsv1.AnnotationUpdateStrategy] = "AdvancedRollingUpdate"
	obs := world.New(t, gr, 2)
	obs.Run("driver")
	ds := obs.Component("driver").DaemonSet
	step := func(name string, change func(), phase, upgrade string, progress int32) {
		t.Helper()
		change()
		gr.Status = next(obs)
		c := world.Action(gr.Status, "upgrade")
		if gr.Status.Phase != phase || c.Status != upgrade || c.Progress != progress {
			t.Errorf("%s: got phase %s, upgrade %s %d%%; want %s, %s %d%%", name, gr.Status.Phase, c.Status, c.Progress, phase, upgrade, progress)
		}
	}
	step("before", func() { obs.Off("node-2") }, "Running", "", 0)
	step("the template was applied", func() { ds.Generation = 2 }, "upgrading", "upgrading", 0)
	step("the DaemonSet controller saw it", func() {
		ds.Status.ObservedGeneration = 2
		obs.NewTemplate("driver")
	}, "upgrading", "upgrading", 0)
	pods := obs.Component("driver").Pods
	step("the old pod is deleted, no pod is outdated", func() { obs.Component("driver").Pods = pods[1:] }, "upgrading", "upgrading", 0)
	step("the new pod is available", func() { obs.Pod("driver", "node-1", "new") }, "Running", "success", 100)
	if last := gr.Status.Conditions[len(gr.Status.Conditions)-1]; last.Action != "upgrade" {
		t.Errorf("the newest condition is not last: %v", gr.Status.Conditions)
	}
	step("the offline node returns", func() { obs.Node("node-2").Status.Conditions[0].Status = "True" }, "upgrading", "upgrading", 50)
	step("it is upgraded", func() { pods[1].Labels["controller-revision-hash"] = "new" }, "Running", "success", 100)
}

func TestAnUpgradeThatEndedBetweenPassesIsReported(t *testing.T) {
	spec := topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}, GFD: &topsv1.BaseFields{}}
	for _, tc := range []struct {
		name  string
		given func(*world.World)
		want  string
	}{
		{"every pod has the newest template", func(o *world.World) { o.Changed = []string{"driver"} }, "success"},
		{"no template changed", func(*world.World) {}, ""},
		{"the component was changed and cannot be applied", func(o *world.World) {
			o.Changed = []string{"driver"}
			o.Component("driver").Failure = &state.Failure{Reason: state.ReasonApplyFailed}
		}, ""},
		{"the template was not applied yet", func(o *world.World) {
			o.Changed = []string{"driver"}
			clear(o.Applied)
		}, ""},
		{"pods are still to be replaced", func(o *world.World) {
			o.Changed = []string{"driver"}
			o.NewTemplate("driver", "node-1")
		}, "upgrading"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := world.New(t, world.NewGR(spec), 3)
			obs.Run("driver", "gfd")
			tc.given(obs)
			if got := world.Action(next(obs), "upgrade").Status; got != tc.want {
				t.Errorf("upgrade is %q, want %q", got, tc.want)
			}
		})
	}
}

func TestAnUnchangedWorldGivesTheSameStatusAtAnyTime(t *testing.T) {
	gr := world.NewGR(world.OnNodes())
	obs := world.New(t, gr, 4)
	obs.Run("nfd", "driver", "toolkit")
	obs.Create("devicePlugin")
	obs.NewTemplate("driver", "node-1")
	gr.Status = next(obs)
	later := world.Noon.Add(time.Hour)
	if diff := cmp.Diff(gr.Status, Describe(obs.Observation, plan.Decide(obs.Observation, later), later)); diff != "" {
		t.Errorf("status changed without cause:\n%s", diff)
	}
}

func TestStatusOfADeletion(t *testing.T) {
	obs := world.New(t, world.NewGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}, GFD: &topsv1.BaseFields{}}), 1)
	obs.Run("driver", "gfd")
	got := DescribeTeardown(obs.Observation, plan.DecideTeardown(obs.Observation), world.Noon)
	want := topsv1.ActionCondition{Action: "delete", Type: "delete", Status: "deleting", Reason: ReasonDeleting,
		Message: "removing gfd: waiting for DaemonSet kube-system/enflame-gcu-feature-discovery, pods on node-1"}
	if diff := cmp.Diff(want, world.Action(got, "delete")); diff != "" {
		t.Errorf("delete (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"driver=Running", "gfd=deleting"}, words(got)); diff != "" || got.Phase != "deleting" || got.ReadyResource != "1/2" {
		t.Errorf("got %s %s (-want +got):\n%s", got.Phase, got.ReadyResource, diff)
	}
	obs.Owned = obs.Owned[:1]
	obs.Component("gfd").Pods = nil
	if got := world.Action(DescribeTeardown(obs.Observation, plan.DecideTeardown(obs.Observation), world.Noon), "delete"); got.Progress != 50 {
		t.Errorf("progress %d, want 50", got.Progress)
	}
}
