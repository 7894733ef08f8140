package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

// The nodes of the scenarios, spread evenly over zones.
const (
	scenarioNodes = 6
	scenarioZones = 3
)

// scenarios is a running cluster with a manager.
type scenarios struct {
	*harness.Cluster
	manager *harness.Process
	// agents of all nodes.
	agents *harness.Agents
}

// startAgents starts the node agents of all nodes.
func (s *scenarios) startAgents(ctx context.Context, t *testing.T) {
	t.Helper()
	var err error
	if s.agents, err = s.StartAgents(ctx, "1.0.0"); err != nil {
		t.Fatal(err)
	}
}

// scenario is one of those that run on one cluster, one after the other. Each leaves
// the cluster as it was.
type scenario struct {
	name string
	play func(s *scenarios, ctx context.Context, t *testing.T)
}

// TestScenarios runs the scenarios on two clusters at the same time: those about
// rollouts of any DaemonSet, and those about GcuResources and node agents.
func TestScenarios(t *testing.T) {
	for name, list := range map[string][]scenario{"rollouts": rolloutScenarios, "grs": grScenarios} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			playScenarios(t, list)
		})
	}
}

var (
	rolloutScenarios = []scenario{
		{"wrong settings are said and nothing is deleted", (*scenarios).wrongSettings},
		{"the keys of OpenYurt mean the same", (*scenarios).openYurtKeys},
		{"a node lost after it was touched keeps its slot", (*scenarios).lostAfterTouch},
		{"a lost node that is back before its pod is Ready keeps its slot", (*scenarios).nodeThenPod},
		{"a lost node whose pod is Ready before it is back keeps its slot", (*scenarios).podThenNode},
		{"the last straggler is named, fails and heals", (*scenarios).lastStraggler},
		{"more nodes are offline than the budget allows", (*scenarios).moreOffline},
		{"a Node object vanishes and comes back", (*scenarios).nodeObjectDeleted},
		{"kubectl rollout restart, history and undo work, half-way too", (*scenarios).kubectlRollout},
		{"a bad version halts and a good one replaces it", (*scenarios).badVersion},
		{"a version that takes nodes down halts within the budget", (*scenarios).takesNodesDown},
		{"a version that takes nodes down later halts too, with minReadySeconds", (*scenarios).takesNodesDownLater},
		{"a version that takes nodes down when they are updated halts too", (*scenarios).takesUpdatedNodesDown},
		{"a template changed half-way replaces each pod once", (*scenarios).newTemplate},
		{"the strategy changes half-way to OTA and back", (*scenarios).toOTA},
		{"a budget lowered half-way binds new starts at once", (*scenarios).smallerBudget},
		{"a policy changed half-way binds at once", (*scenarios).otherPolicy},
		{"an update type changed half-way stops us until it is OnDelete again", (*scenarios).otherUpdateType},
		{"a bad version of a DaemonSet is rolled back by itself", (*scenarios).daemonSetGoesBack},
		{"a pod stuck in Terminating costs one slot", (*scenarios).stuckTerminating},
		{"pausing starts nothing new", (*scenarios).paused},
		{"a policy that makes no sense is refused", (*scenarios).policyRefused},
		{"waves follow one another, a manual one waits for a person", (*scenarios).waves},
		{"each pool keeps its own budget and all of them go on", (*scenarios).pools},
		{"nothing starts outside of the window, which may be edited", (*scenarios).window},
		{"the window is meant in the time of the node's site", (*scenarios).windowOfSite},
		{"a killed manager goes on where it stopped, within the budget", (*scenarios).killedManager},
		{"two managers at once stay within the budget", (*scenarios).twoManagers},
	}
	grScenarios = []scenario{
		{"a GcuResource with both device plugins is refused", (*scenarios).bothPlugins},
		{"a bad version of a GcuResource is rolled back by itself", (*scenarios).gcuResourceGoesBack},
		{"a driver is upgraded on emptied nodes", (*scenarios).driverUpgrade},
		{"a node that cannot be emptied is put off", (*scenarios).drainRefused},
		{"an upgrade does what it is limited to", (*scenarios).limited},
		{"what a preview tells is what happens", (*scenarios).foretold},
		{"two grs upgrade one node one after the other", (*scenarios).twoResources},
		{"a gr deleted half-way leaves no node cordoned", (*scenarios).deletedHalfWay},
		{"a person steers an upgrade with kubectl gcu", (*scenarios).plugin},
		{"a request of a node waits, runs and is answered", (*scenarios).requestOfNode},
		{"leaving OTA removes the conditions", (*scenarios).leaveOTA},
		{"the REST API does what the guide of gcu-upgrade-manager prints", (*scenarios).restAPI},
		{"every example deploys, runs and goes without a trace", (*scenarios).examples},
		{"the shipped manifests are accepted", (*scenarios).manifests},
	}
)

func playScenarios(t *testing.T, list []scenario) {
	ctx := testContext(t, 17*time.Minute)
	s := &scenarios{Cluster: startCluster(ctx, t, "--nodes", fmt.Sprint(scenarioNodes), "--zones", fmt.Sprint(scenarioZones), "--pod-ready-delay", "300ms",
		"--pod-ready-jitter", "200ms", "--node-monitor-grace-period", "6s")}
	if err := s.Install(ctx); err != nil {
		t.Fatal(err)
	}
	s.startManager(ctx, t)
	s.startAgents(ctx, t)
	t.Cleanup(func() {
		for _, p := range append(s.agents.Processes(), s.manager) {
			if err := p.Stop(); err != nil {
				t.Error(err)
			}
		}
		s.agents.Close()
	})
	for _, scenario := range list {
		t.Run(scenario.name, func(t *testing.T) { scenario.play(s, ctx, t) })
	}
}

func (s *scenarios) startManager(ctx context.Context, t *testing.T) {
	t.Helper()
	manager, err := s.StartManager(ctx)
	if err != nil {
		t.Fatal(err)
	}
	s.manager = manager
}

func rolling(maxUnavailable string) map[string]string {
	return map[string]string{
		topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate",
		topsv1.AnnotationMaxUnavailable: maxUnavailable,
	}
}

func (s *scenarios) wrongSettings(ctx context.Context, t *testing.T) {
	onRollingUpdate := func(ds *appsv1.DaemonSet) {
		ds.Spec.UpdateStrategy.Type = appsv1.RollingUpdateDaemonSetStrategyType
		// So that Kubernetes itself does not roll it while we look.
		ds.Spec.MinReadySeconds = 600
	}
	tests := []struct {
		name, reason, says string
		annotations        map[string]string
		change             []func(*appsv1.DaemonSet)
	}{
		{name: "strategy", reason: "InvalidUpdateStrategy", says: `"Rolling"`,
			annotations: map[string]string{topsv1.AnnotationUpdateStrategy: "Rolling"}},
		{name: "zero", reason: "InvalidMaxUnavailable", says: `"0"`, annotations: rolling("0")},
		{name: "negative", reason: "InvalidMaxUnavailable", says: `"-1"`, annotations: rolling("-1")},
		{name: "garbage", reason: "InvalidMaxUnavailable", says: `"abc"`, annotations: rolling("abc")},
		{name: "fraction", reason: "InvalidMaxUnavailable", says: `"1.5"`, annotations: rolling("1.5")},
		{name: "percent", reason: "InvalidMaxUnavailable", says: `"101%"`, annotations: rolling("101%")},
		{name: "type", reason: "UpdateTypeNotOnDelete", says: "OnDelete", annotations: rolling("1"), change: []func(*appsv1.DaemonSet){onRollingUpdate}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newDaemonSet(ctx, t, s.Cluster, "wrong-"+tt.name, tt.annotations, tt.change...)
			before := f.uids(ctx)
			if tt.change == nil {
				f.setImage(ctx, "app:2")
			}
			r := f.reaches(ctx, "refused", func(st *topsv1.DaemonRolloutStatus) bool {
				return meta.IsStatusConditionFalse(st.Conditions, topsv1.RolloutAccepted)
			})
			accepted := meta.FindStatusCondition(r.Status.Conditions, topsv1.RolloutAccepted)
			if accepted.Reason != tt.reason || !strings.Contains(accepted.Message, tt.says) {
				t.Errorf("condition says %s: %s; want reason %s and a message with %s", accepted.Reason, accepted.Message, tt.reason, tt.says)
			}
			f.eventually(ctx, func() error {
				described, err := s.Kubectl(ctx, "describe", "daemonset", f.name)
				if err == nil && !strings.Contains(described, tt.reason) {
					err = fmt.Errorf("kubectl describe does not show an event %s:\n%s", tt.reason, described)
				}
				return err
			})
			f.staysAs(ctx, before)
		})
	}
}

func (s *scenarios) bothPlugins(ctx context.Context, t *testing.T) {
	gr := &topsv1.GcuResource{
		ObjectMeta: metav1.ObjectMeta{Name: "both"},
		Spec:       topsv1.GcuResourceSpec{DevicePlugin: &topsv1.BaseFields{}, GcusharePlugin: &topsv1.GcusharePluginSpec{}},
	}
	err := s.Client.Create(ctx, gr)
	if err == nil || !strings.Contains(err.Error(), "cannot be deployed together") {
		t.Fatalf("creating it: %v; want it refused with what to change", err)
	}
	var list topsv1.GcuResourceList
	if err := s.Client.List(ctx, &list); err != nil || len(list.Items) != 0 {
		t.Errorf("%d GcuResources exist (%v), want none", len(list.Items), err)
	}
}

func (s *scenarios) openYurtKeys(ctx context.Context, t *testing.T) {
	f := newDaemonSet(ctx, t, s.Cluster, "openyurt", map[string]string{
		topsv1.OpenYurtAnnotationUpdateStrategy: "auto", topsv1.OpenYurtAnnotationMaxUnavailable: "50%",
	})
	o := f.observe(ctx)
	f.setImage(ctx, "app:2")
	f.complete(ctx, "app:2", scenarioNodes)
	if most := o.Most(); most > 3 || most < 2 {
		t.Errorf("at most %d nodes were down at once, want 50%% of %d used and not exceeded", most, scenarioNodes)
	}
}

func (s *scenarios) lostAfterTouch(ctx context.Context, t *testing.T) {
	f := newDaemonSet(ctx, t, s.Cluster, "lost", rolling("1"))
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers[0].Image = "app:2"
		ds.Spec.Template.Annotations = map[string]string{"testcluster/pod-ready-delay": "20s"}
	})
	r := f.reaches(ctx, "started", func(st *topsv1.DaemonRolloutStatus) bool { return len(st.InFlight) == 1 })
	node := r.Status.InFlight[0].Node
	if _, err := s.NodesOff(ctx, node); err != nil {
		t.Fatal(err)
	}
	before := f.uids(ctx)
	f.staysAs(ctx, before)
	r = f.reaches(ctx, "holding the slot", func(st *topsv1.DaemonRolloutStatus) bool { return true })
	if len(r.Status.InFlight) != 1 || r.Status.InFlight[0].Node != node || r.Status.SkippedNodes != 0 {
		t.Errorf("status = %+v; want node %s to keep its slot and none skipped", r.Status, node)
	}
	if _, err := s.NodesOn(ctx, node); err != nil {
		t.Fatal(err)
	}
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers[0].Image = "app:3"
		ds.Spec.Template.Annotations = nil
	})
	f.complete(ctx, "app:3", scenarioNodes)
}

func (s *scenarios) badVersion(ctx context.Context, t *testing.T) {
	f := newDaemonSet(ctx, t, s.Cluster, "bad", rolling("2"))
	o := f.observe(ctx)
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers[0].Image = "app:bad"
		ds.Spec.Template.Labels["testcluster/behaviour"] = "crash-loop"
	})
	r := f.reaches(ctx, "halted", func(st *topsv1.DaemonRolloutStatus) bool {
		return meta.IsStatusConditionTrue(st.Conditions, topsv1.RolloutHalted)
	})
	if r.Status.FailedNodes != 2 || r.Status.Failed[0].Reason != "CrashLooping" {
		t.Errorf("failed = %+v, want two crash-looping nodes", r.Status.Failed)
	}
	f.staysAs(ctx, f.uids(ctx))
	if replaced := o.Replaced(); replaced != 2 {
		t.Errorf("the bad version replaced %d pods, want it stopped after 2", replaced)
	}
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers[0].Image = "app:good"
		delete(ds.Spec.Template.Labels, "testcluster/behaviour")
	})
	f.complete(ctx, "app:good", scenarioNodes)
	if most := o.Most(); most > 2 {
		t.Errorf("%d nodes were down at once, allowed are 2", most)
	}
}

func (s *scenarios) stuckTerminating(ctx context.Context, t *testing.T) {
	f := newDaemonSet(ctx, t, s.Cluster, "stuck", rolling("2"))
	o := f.observe(ctx)
	pods, err := f.pods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	held := &pods[0]
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`))
	if err := s.Client.Patch(ctx, held, patch); err != nil {
		t.Fatal(err)
	}
	f.setImage(ctx, "app:2")
	f.reaches(ctx, "done but for the stuck node", func(st *topsv1.DaemonRolloutStatus) bool {
		return int(st.Updated) == scenarioNodes-1 && len(st.InFlight) == 1 && st.InFlight[0].Node == held.Spec.NodeName
	})
	if most := o.Most(); most > 2 {
		t.Errorf("%d nodes were down at once, allowed are 2", most)
	}
	release := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := s.Client.Patch(ctx, held, release); err != nil {
		t.Fatal(err)
	}
	f.complete(ctx, "app:2", scenarioNodes)
}

func (s *scenarios) paused(ctx context.Context, t *testing.T) {
	annotations := rolling("1")
	annotations[topsv1.AnnotationPaused] = "true"
	f := newDaemonSet(ctx, t, s.Cluster, "paused", annotations)
	before := f.uids(ctx)
	f.setImage(ctx, "app:2")
	f.reaches(ctx, "paused", func(st *topsv1.DaemonRolloutStatus) bool {
		return int(st.HeldNodes) == scenarioNodes && reasonOf(st, topsv1.RolloutProgressing) == "Paused"
	})
	f.staysAs(ctx, before)
	f.change(ctx, func(ds *appsv1.DaemonSet) { ds.Annotations[topsv1.AnnotationPaused] = "false" })
	f.complete(ctx, "app:2", scenarioNodes)
}

func (s *scenarios) manifests(ctx context.Context, t *testing.T) {
	for range 2 { // the second time over what the first left
		if output, err := s.Kubectl(ctx, "apply", "-k", "config/default"); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	for _, object := range []string{"deployment/gcu-operator", "daemonset/gcu-node-agent"} {
		if _, err := s.Kubectl(ctx, "get", "-n", "kube-system", object); err != nil {
			t.Error(err)
		}
	}
	const policy = "validatingadmissionpolicy/gcu-node-agent"
	if _, err := s.Kubectl(ctx, "wait", "--for=jsonpath={.status.observedGeneration}", "--timeout=30s", policy); err != nil {
		t.Fatal(err)
	}
	if warnings, err := s.Kubectl(ctx, "get", policy, "-o", "jsonpath={.status.typeChecking.expressionWarnings}"); err != nil || warnings != "" {
		t.Errorf("%v, the types in the policy are wrong: %s", err, warnings)
	}
}

// conditionOf returns the status of PodNeedUpgrade, "" when it is absent.
func conditionOf(pod *corev1.Pod) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == topsv1.PodNeedUpgrade {
			return c.Status
		}
	}
	return ""
}
