package inquiry

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/fixture"
)

// previewed is the gr "fleet", a driver and an exporter, on nodes a, b and c, all at its
// newest revision. Node b has a pod that uses a GCU, and c is offline.
func previewed(t *testing.T, change ...func(*appsv1.DaemonSet)) Predictor {
	t.Helper()
	return previewedWith(t, nil, change...)
}

// previewedWith is previewed with more objects.
func previewedWith(t *testing.T, more []client.Object, change ...func(*appsv1.DaemonSet)) Predictor {
	t.Helper()
	objects := []client.Object{fixture.Node("a"), fixture.Node("b"), fixture.Offline(fixture.Node("c"))}
	training := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "training", OwnerReferences: fixture.ControlledBy("apps/v1", "ReplicaSet", "t", "t")}}
	training.Spec.NodeName = "b"
	training.Spec.Containers = []corev1.Container{{Env: []corev1.EnvVar{{Name: "ENFLAME_VISIBLE_DEVICES", Value: "all"}}}}
	training.Labels = map[string]string{"app": "training"}
	objects = append(append(objects, training), more...)
	for _, component := range []string{"driver", "exporter"} {
		ds := fixture.ComponentOf(component)
		for _, c := range change {
			c(ds)
		}
		objects = append(objects, ds)
		for _, r := range fixture.RevisionsOf(ds, fixture.OldHash, fixture.NewHash) {
			objects = append(objects, r)
		}
		for _, name := range []string{"a", "b", "c"} {
			objects = append(objects, fixture.PodOn(ds, name, fixture.NewHash))
		}
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, topsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return Predictor{Reader: reader, Live: reader, Namespace: "gcu-system", Clock: func() time.Time { return fixture.Epoch }}
}

// question is a question after the comparison of templates. Without annotations, those of
// the DaemonSets count.
type question struct {
	gr          string
	annotations map[string]string
	preview.Differences
}

// rolloutOf returns the predicted rollout.
func (a Predictor) rolloutOf(ctx context.Context, q question) (*preview.Rollout, error) {
	group := observed.Group{Kind: observed.KindGcuResource, Name: q.gr}
	members, err := a.members(ctx, group, &topsv1.GcuResource{})
	if err != nil {
		return nil, err
	}
	s := &observed.State{Group: group, Members: q.Foresee(members, q.annotations)}
	return rolloutReader{Reader: a.ownership()}.rollout(ctx, s, a.Clock(), &preview.Question{})
}

// changes is a question about new templates of components of "fleet".
func changes(components ...string) question {
	q := question{gr: "fleet", Differences: preview.Differences{Templates: map[string]preview.Template{}}}
	for _, c := range components {
		q.Templates[c] = preview.Template{}
	}
	return q
}

// limitedTo is a question about a gr with a limit, upgraded one node at a time.
func limitedTo(q question, limit daemonset.Limit) question {
	q.annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationMaxUnavailable: "1"}
	if only := limit.String(); only != "" {
		q.annotations[topsv1.AnnotationUpgradeOnly] = only
	}
	return q
}

func TestAPreviewListsUpgradedNodesAndEvictedPods(t *testing.T) {
	got, err := previewed(t).rolloutOf(t.Context(), changes("driver"))
	if err != nil {
		t.Fatal(err)
	}
	want := &preview.Rollout{
		MaxUnavailable: 1,
		Total:          3,
		Nodes: []preview.Node{
			{Name: "a", Disruption: upgradeplan.EvictAccelerator, Replaces: []string{"driver", "exporter"}, Upgrades: []string{"driver"}},
			{Name: "b", AfterSeconds: 1, Disruption: upgradeplan.EvictAccelerator, Replaces: []string{"driver", "exporter"}, Upgrades: []string{"driver"}, Evicts: []string{"default/training"}},
		},
		Left: []preview.LeftNode{{Name: "c", Reason: "NodeOffline", Message: "the node was offline before it was touched; it is upgraded when it is Ready again"}},
		Plan: got.Plan,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(preview.Rollout{}, "Planned", "Behind")); diff != "" {
		t.Errorf("preview (-want +got):\n%s", diff)
	}
	if len(got.Plan) != 2 || got.Plan[0][0].Host() != "a" || len(got.Plan[0][0]) != 10 {
		t.Errorf("plan %v", got.Plan)
	}
}

func TestAPreviewIsLimitedAsAsked(t *testing.T) {
	p := previewed(t)
	for _, tt := range []struct {
		limit daemonset.Limit
		want  []string
	}{
		{daemonset.Limit{}, []string{"a", "b"}},
		{daemonset.Limit{Nodes: []string{"b"}}, []string{"b"}},
		{daemonset.Limit{Components: []string{"driver"}}, nil},
	} {
		got, err := p.rolloutOf(t.Context(), limitedTo(changes("exporter"), tt.limit))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, n := range got.Nodes {
			names = append(names, n.Name)
		}
		if diff := cmp.Diff(tt.want, names); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.limit, diff)
		}
	}
}

func TestAPreviewReportsWhyNothingHappens(t *testing.T) {
	p := previewed(t, func(ds *appsv1.DaemonSet) { delete(ds.Annotations, topsv1.AnnotationUpdateStrategy) })
	if got, err := p.rolloutOf(t.Context(), changes("driver")); err != nil || got.Blocked == "" || len(got.Nodes) > 0 {
		t.Errorf("without a strategy: %+v, %v", got, err)
	}
	p = previewed(t, func(ds *appsv1.DaemonSet) { fixture.Annotate(ds, topsv1.AnnotationMaxUnavailable, "0") })
	if got, err := p.rolloutOf(t.Context(), question{gr: "fleet"}); err != nil || got.Blocked == "" {
		t.Errorf("with wrong settings: %+v, %v", got, err)
	}
	if got, err := p.rolloutOf(t.Context(), question{gr: "other"}); err != nil || len(got.Nodes) > 0 || got.Nodes == nil || got.Plan == nil {
		t.Errorf("of a gr without DaemonSets: %+v, %v", got, err)
	}
}

func TestAPreviewReportsWhatBlocksADrain(t *testing.T) {
	budget := func(name, app string, allowed int32) *policyv1.PodDisruptionBudget {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
		b.Status.DisruptionsAllowed = allowed
		return b
	}
	stopping := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	stopping.Status.Host = &topsv1.HostReport{Runtime: &topsv1.RuntimeReport{Engine: "docker", Default: "runc"}}
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", OwnerReferences: fixture.ControlledBy("apps/v1", "ReplicaSet", "w", "w")}}
	web.Spec.NodeName = "b"
	alone := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "alone"}, Spec: corev1.PodSpec{NodeName: "b",
		Containers: []corev1.Container{{Env: []corev1.EnvVar{{Name: "ENFLAME_VISIBLE_DEVICES", Value: "0"}}}}}}
	claiming := web.DeepCopy()
	claiming.Name, claiming.Spec.ResourceClaims = "claiming", []corev1.PodResourceClaim{{Name: "card", ResourceClaimName: ptr.To("card")}}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "card"}}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Driver: "gcu.enflame.com"}}}}
	theirs := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "theirs"}}
	theirs.UID = "theirs"
	forged := fixture.OfGcuResource(theirs.DeepCopy())
	forged.Labels = map[string]string{topsv1.LabelComponent: "exporter"}
	tolerant := theirs.DeepCopy()
	tolerant.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	monitor := alone.DeepCopy()
	monitor.Name, monitor.OwnerReferences = "monitor", fixture.ControlledBy("apps/v1", "DaemonSet", "theirs", "theirs")
	for _, tt := range []struct {
		name       string
		more       []client.Object
		changed    string
		disruption upgradeplan.Disruption
		evicts     []string
		holds      string
	}{
		{"nothing", nil, "driver", upgradeplan.EvictAccelerator, []string{"default/training"}, ""},
		{"a budget that is used up", []client.Object{budget("full", "training", 0)}, "driver", upgradeplan.EvictAccelerator, []string{"default/training"},
			"PodDisruptionBudget default/full allows no eviction now: default/training"},
		{"a budget with room, and one of others", []client.Object{budget("room", "training", 1), budget("others", "web", 0)}, "driver",
			upgradeplan.EvictAccelerator, []string{"default/training"}, ""},
		{"a pod that nobody brings back", []client.Object{alone}, "driver", upgradeplan.EvictAccelerator, []string{"default/training"}, "default/alone"},
		{"a pod that uses no GCU stays", []client.Object{web}, "driver", upgradeplan.EvictAccelerator, []string{"default/training"}, ""},
		{"a pod with a card from a ResourceClaim", []client.Object{claiming, claim}, "driver", upgradeplan.EvictAccelerator, []string{"default/claiming", "default/training"}, ""},
		{"a pod of another DaemonSet", []client.Object{monitor, theirs}, "driver", upgradeplan.EvictAccelerator, []string{"default/monitor", "default/training"}, ""},
		{"a pod of a DaemonSet with the labels and the owner of ours", []client.Object{monitor, forged, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "fleet", UID: "uid-fleet"}}}, "driver",
			upgradeplan.EvictAccelerator, []string{"default/monitor", "default/training"}, ""},
		{"a pod of a DaemonSet that tolerates the taint", []client.Object{monitor, tolerant}, "driver", upgradeplan.EvictAccelerator, []string{"default/training"},
			"DaemonSet default/theirs tolerates taint"},
		{"a light change evicts nobody", []client.Object{budget("full", "training", 0)}, "exporter", upgradeplan.ReplacePod, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := previewedWith(t, tt.more).rolloutOf(t.Context(), changes(tt.changed))
			if err != nil {
				t.Fatal(err)
			}
			n := got.Nodes[1]
			if n.Name != "b" || n.Disruption != tt.disruption || !slices.Equal(n.Evicts, tt.evicts) || !strings.Contains(n.BlockedBy, tt.holds) || (n.BlockedBy == "") != (tt.holds == "") {
				t.Errorf("node %+v; want %s, evicted %v, held up by %q", n, tt.disruption, tt.evicts, tt.holds)
			}
		})
	}
	toolkit := func(ds *appsv1.DaemonSet) {
		if ds.Labels[topsv1.LabelComponent] == "driver" {
			ds.Labels[topsv1.LabelComponent] = "toolkit"
		}
	}
	got, err := previewedWith(t, []client.Object{stopping, web}, toolkit).rolloutOf(t.Context(), changes("toolkit"))
	if err != nil {
		t.Fatal(err)
	}
	if a, b := got.Nodes[0], got.Nodes[1]; a.Disruption != upgradeplan.RestartRuntime || b.Disruption != upgradeplan.DrainNode || !slices.Equal(b.Evicts, []string{"default/training", "default/web"}) {
		t.Errorf("where the runtime stops its containers %+v, else %+v", b, a)
	}
}

func TestAPreviewKnowsATemplateThatWasThereBefore(t *testing.T) {
	q := changes()
	q.Templates["exporter"] = preview.Template{Revision: fixture.NewHash} // all pods have it
	if got, err := previewed(t).rolloutOf(t.Context(), q); err != nil || len(got.Nodes) > 0 {
		t.Errorf("%+v, %v; want nothing to do", got, err)
	}
	q.Templates["exporter"] = preview.Template{Revision: fixture.OldHash}
	if got, err := previewed(t).rolloutOf(t.Context(), q); err != nil || len(got.Nodes) != 2 {
		t.Errorf("%+v, %v; want both nodes upgraded", got, err)
	}
}

func TestAPreviewIsOfTheNodesOfTheNewTemplate(t *testing.T) {
	q := changes("exporter")
	elsewhere := preview.Template{}
	elsewhere.Pod.Spec.NodeSelector = map[string]string{"rack": "other"}
	q.Templates["exporter"] = elsewhere
	if got, err := previewed(t).rolloutOf(t.Context(), q); err != nil || len(got.Nodes) > 0 || got.Total != 3 {
		t.Errorf("%+v, %v; want nothing upgraded where the exporter will not be, and the driver on three nodes", got, err)
	}
	q = question{gr: "fleet", Differences: preview.Differences{Gone: []string{"driver", "exporter"}}}
	if got, err := previewed(t).rolloutOf(t.Context(), q); err != nil || got.Total != 0 || got.Blocked != "" {
		t.Errorf("%+v, %v; want nothing of what is gone", got, err)
	}
}
