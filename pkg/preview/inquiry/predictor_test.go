package inquiry

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/preview"
)

const namespace = "kube-system"

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// gr is a gr that is upgraded one node at a time.
func gr(edit func(*topsv1.GcuResourceSpec)) *topsv1.GcuResource {
	g := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "fleet", UID: "uid-fleet", Annotations: map[string]string{
		topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationMaxUnavailable: "1"}}}
	g.Spec = topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "1"}, Exporter: &topsv1.BaseFields{Version: "1"}, Volcano: &topsv1.VolcanoSpec{}}
	if edit != nil {
		edit(&g.Spec)
	}
	return g
}

func controlledBy(kind, name string, uid types.UID) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "x/v1", Kind: kind, Name: name, UID: uid, Controller: ptr.To(true)}}
}

// kept returns the revision of a gr's spec.
func kept(g *topsv1.GcuResource, name string) *appsv1.ControllerRevision {
	data, err := json.Marshal(map[string]any{"spec": g.Spec})
	if err != nil {
		return nil
	}
	owner := controlledBy(topsv1.GcuResourceKind, g.Name, g.UID)
	owner[0].APIVersion = topsv1.GroupVersion.String()
	return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{topsv1.LabelGcuResource: g.Name},
		OwnerReferences: owner}, Data: runtime.RawExtension{Raw: data}}
}

// site is a cluster with a gr that was deployed from "fleet-1" and, unless second is nil,
// then from "fleet-2", on Ready nodes a and b; the pods on a are the newer ones.
func site(t *testing.T, first, second *topsv1.GcuResource, more ...client.Object) Predictor {
	t.Helper()
	objects := append([]client.Object{kept(first, "fleet-1")}, more...)
	versions, newest := []string{"fleet-1"}, first
	if second != nil {
		objects, versions, newest = append(objects, kept(second, "fleet-2")), append(versions, "fleet-2"), second
	}
	for _, name := range []string{"a", "b"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{topsv1.LabelGcuPresent: "true"}}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		objects = append(objects, node)
	}
	rendered, err := component.Render(newest, versions[len(versions)-1])
	if err != nil {
		t.Fatal(err)
	}
	for i := range rendered {
		if ds := rendered[i].PerNode; ds != nil {
			objects = append(objects, deployedAs(ds, versions)...)
		}
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, topsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	reader := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	return Predictor{Reader: reader, Live: reader, Namespace: namespace, Clock: func() time.Time { return epoch }}
}

// deployedAs returns a DaemonSet with a revision per version, and its pods: the newest on
// a, the oldest on b.
func deployedAs(ds *appsv1.DaemonSet, versions []string) []client.Object {
	ds = ds.DeepCopy()
	ds.UID, ds.Generation = types.UID("uid-"+ds.Name), 1
	ds.OwnerReferences[0].UID = "uid-fleet"
	ds.Status.ObservedGeneration = 1
	objects := []client.Object{ds}
	labels := func(hash string) map[string]string {
		return map[string]string{component.LabelName: ds.Name, appsv1.ControllerRevisionHashLabelKey: hash}
	}
	for i, version := range versions {
		objects = append(objects, &appsv1.ControllerRevision{Revision: int64(i + 1), ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Name: ds.Name + version,
			Labels: labels("hash-" + version), Annotations: map[string]string{topsv1.AnnotationRevision: version}, OwnerReferences: controlledBy("DaemonSet", ds.Name, ds.UID)}})
	}
	for node, version := range map[string]string{"a": versions[len(versions)-1], "b": versions[0]} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Name: ds.Name + "-" + node, UID: types.UID(ds.Name + node),
			Labels: labels("hash-" + version), OwnerReferences: controlledBy("DaemonSet", ds.Name, ds.UID)}, Spec: corev1.PodSpec{NodeName: node}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(epoch.Add(-time.Hour))}}
		objects = append(objects, pod)
	}
	return objects
}

// become returns the predicted changes of components, and the nodes.
func become(t *testing.T, a Predictor, present, wanted *topsv1.GcuResource) (components map[string]preview.Change, nodes []string) {
	t.Helper()
	got, err := a.Ask(t.Context(), preview.Question{Present: present, Wanted: wanted})
	if err != nil {
		t.Fatal(err)
	}
	components = map[string]preview.Change{}
	for _, c := range got.Components {
		components[c.Name] = c.Change
	}
	for _, n := range got.Nodes {
		nodes = append(nodes, n.Name)
	}
	return components, nodes
}

func TestWhatBecomesOfComponents(t *testing.T) {
	type changes = map[string]preview.Change
	tests := []struct {
		name  string
		edit  func(*topsv1.GcuResourceSpec)
		want  changes
		nodes []string
	}{
		{"nothing", func(*topsv1.GcuResourceSpec) {}, changes{}, nil},
		{"a default that is written out", func(s *topsv1.GcuResourceSpec) { s.Exporter.ImagePullPolicy = "IfNotPresent" }, changes{}, nil},
		{"another version", func(s *topsv1.GcuResourceSpec) { s.Exporter.Version = "2" }, changes{"exporter": preview.Upgrade}, []string{"a", "b"}},
		{"a driver takes who uses it along", func(s *topsv1.GcuResourceSpec) { s.Driver.Version = "2" }, changes{"driver": preview.Upgrade, "exporter": preview.Restart}, []string{"a", "b"}},
		{"a new variable", func(s *topsv1.GcuResourceSpec) { s.Exporter.Env = []corev1.EnvVar{{Name: "X", Value: "y"}} }, changes{"exporter": preview.Upgrade}, []string{"a", "b"}},
		{"a new component", func(s *topsv1.GcuResourceSpec) { s.GFD = &topsv1.BaseFields{} }, changes{"gfd": preview.Deploy}, nil},
		{"one that is gone", func(s *topsv1.GcuResourceSpec) { s.Exporter = nil }, changes{"exporter": preview.Remove}, []string{"a", "b"}},
		{"one that is not to be deployed", func(s *topsv1.GcuResourceSpec) { s.Exporter.NotDeploy = true }, changes{"exporter": preview.Remove}, []string{"a", "b"}},
		{"another name", func(s *topsv1.GcuResourceSpec) { s.Exporter.Name = "mine" }, changes{"exporter": preview.Rename}, []string{"a", "b"}},
		{"another namespace", func(s *topsv1.GcuResourceSpec) { s.Exporter.Namespace = "default" }, changes{"exporter": preview.Rename}, []string{"a", "b"}},
		{"what does not run on every node", func(s *topsv1.GcuResourceSpec) { s.Volcano.Scheduler = &topsv1.BaseFields{Version: "2"} }, changes{"volcano": preview.Update}, nil},
		{"that is gone", func(s *topsv1.GcuResourceSpec) { s.Volcano = nil }, changes{"volcano": preview.Delete}, nil},
		{"several", func(s *topsv1.GcuResourceSpec) { s.Driver.Version, s.Exporter, s.GFD = "2", nil, &topsv1.BaseFields{} },
			changes{"driver": preview.Upgrade, "exporter": preview.Remove, "gfd": preview.Deploy}, []string{"a", "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, nodes := become(t, site(t, gr(nil), nil), gr(nil), gr(tt.edit))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("components (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.nodes, nodes); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWithoutAStrategyWhatLeavesGoesAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*topsv1.GcuResourceSpec)
		want preview.Change
	}{
		{"one that is gone", func(s *topsv1.GcuResourceSpec) { s.Exporter = nil }, preview.Delete},
		{"another name", func(s *topsv1.GcuResourceSpec) { s.Exporter.Name = "mine" }, preview.Redeploy},
	} {
		present, wanted := gr(nil), gr(tt.edit)
		delete(present.Annotations, topsv1.AnnotationUpdateStrategy)
		delete(wanted.Annotations, topsv1.AnnotationUpdateStrategy)
		got, nodes := become(t, site(t, present, nil), present, wanted)
		if got["exporter"] != tt.want || !tt.want.AtOnce() || len(nodes) > 0 {
			t.Errorf("%s: %v on nodes %v, want %s at once", tt.name, got, nodes, tt.want)
		}
	}
}

func TestAChangedImageIsListed(t *testing.T) {
	got, err := site(t, gr(nil), nil).Ask(t.Context(), preview.Question{Present: gr(nil), Wanted: gr(func(s *topsv1.GcuResourceSpec) { s.Exporter.Version = "2" })})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Components) != 1 || len(got.Components[0].Images) != 1 || !strings.HasSuffix(got.Components[0].Images[0].From, ":1") ||
		!strings.HasSuffix(got.Components[0].Images[0].To, ":2") || got.Components[0].Nodes != 2 {
		t.Errorf("told is %+v", got.Components)
	}
}

// In the middle of an upgrade, node a has the newer pods and b the older ones.
func TestInTheMiddleOfAnUpgradeOnlyWhatIsOtherIsReplaced(t *testing.T) {
	older := gr(nil)
	newer := gr(func(s *topsv1.GcuResourceSpec) { s.Exporter.Version = "2" })
	other := gr(func(s *topsv1.GcuResourceSpec) { s.Exporter.Version = "3" })
	a := site(t, older, newer)
	for _, tt := range []struct {
		name   string
		wanted *topsv1.GcuResource
		want   map[string]preview.Change
		nodes  []string
	}{
		{"what is still to be done", newer, map[string]preview.Change{"exporter": preview.Upgrade, "driver": preview.Upgrade}, []string{"b"}},
		{"back to where it came from", older, map[string]preview.Change{"exporter": preview.Upgrade, "driver": preview.Upgrade}, []string{"a", "b"}},
		{"on to another one", other, map[string]preview.Change{"exporter": preview.Upgrade, "driver": preview.Upgrade}, []string{"a", "b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, nodes := become(t, a, newer, tt.wanted)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("components (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.nodes, nodes); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
	// The driver's pods differ by hash only, one per version in this site. Without the
	// driver, going back concerns only the nodes that are at the newer version.
	back := func(s *topsv1.GcuResourceSpec) { s.Driver = nil }
	a = site(t, gr(back), gr(func(s *topsv1.GcuResourceSpec) { back(s); s.Exporter.Version = "2" }))
	if got, nodes := become(t, a, gr(func(s *topsv1.GcuResourceSpec) { back(s); s.Exporter.Version = "2" }), gr(back)); got["exporter"] != preview.Upgrade || !cmp.Equal(nodes, []string{"a"}) {
		t.Errorf("back: %v on %v, want the exporter on a", got, nodes)
	}
}

func TestALimitMarksComponents(t *testing.T) {
	wanted := gr(func(s *topsv1.GcuResourceSpec) { s.Driver.Version, s.Exporter.Version = "2", "2" })
	wanted.Annotations[topsv1.AnnotationUpgradeOnly] = "nodes=b;components=exporter"
	got, err := site(t, gr(nil), nil).Ask(t.Context(), preview.Question{Present: gr(nil), Wanted: wanted})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Nodes) != 1 || got.Nodes[0].Name != "b" || got.Only != "nodes=b;components=exporter" || !got.Components[0].LeftOut || got.Components[1].LeftOut {
		t.Errorf("told is %+v", got)
	}
}

func TestCheckLimit(t *testing.T) {
	a := site(t, gr(nil), nil)
	many := make([]string, fewNodes+1)
	for i := range many {
		many[i] = "a"
	}
	many = append(many, "c", "b")
	for _, tt := range []struct {
		name        string
		limit       daemonset.Limit
		want, wrong string
	}{
		{"good ones", daemonset.Limit{Nodes: []string{"a", "b"}, Components: []string{"driver"}}, "nodes=a,b;components=driver", ""},
		{"twice the same", daemonset.Limit{Nodes: []string{"b", "a", "b"}}, "nodes=b,a", ""},
		{"a node that there is not", daemonset.Limit{Nodes: []string{"a", "c"}}, "", "there is no node c"},
		{"one of many", daemonset.Limit{Nodes: many}, "", "there is no node"},
		{"no name", daemonset.Limit{Nodes: []string{"a;components=x"}}, "", `"a;components=x" is not the name of a node`},
		{"a component that is not asked for", daemonset.Limit{Components: []string{"gfd"}}, "", `has no component "gfd" on its nodes; it has driver, exporter`},
		{"one that is not on every node", daemonset.Limit{Components: []string{"volcano"}}, "", `has no component "volcano"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, wrong, err := a.CheckLimit(t.Context(), gr(nil), &tt.limit)
			if err != nil || got.String() != tt.want || !strings.Contains(wrong, tt.wrong) || (wrong == "") != (tt.wrong == "") {
				t.Errorf("%q, %q, %v; want %q, %q", got.String(), wrong, err, tt.want, tt.wrong)
			}
		})
	}
	withPlugin := gr(func(s *topsv1.GcuResourceSpec) { s.Plugin = &topsv1.BaseFields{} })
	if got, wrong, err := a.CheckLimit(t.Context(), withPlugin, &daemonset.Limit{Components: []string{"plugin"}}); err != nil || wrong != "" || got.String() != "components=devicePlugin" {
		t.Errorf("plugin is %q, %q, %v", got.String(), wrong, err)
	}
}

func TestTheNodeOfTheOperatorComesLast(t *testing.T) {
	operator := func(name, node string) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app.kubernetes.io/name": topsv1.ManagedBy}}, Spec: corev1.PodSpec{NodeName: node}}
	}
	lease := func(holder string) client.Object {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: LeaseName}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	}
	wanted := gr(func(s *topsv1.GcuResourceSpec) { s.Exporter.Version = "2" })
	for _, tt := range []struct {
		name    string
		objects []client.Object
		want    []string
	}{
		{"not known", nil, []string{"a", "b"}},
		{"one manager", []client.Object{operator("m-1", "a")}, []string{"b", "a"}},
		{"the leader of two", []client.Object{operator("m-1", "b"), operator("m-2", "a"), lease("m-2_x")}, []string{"b", "a"}},
		{"no leader of two", []client.Object{operator("m-1", "b"), operator("m-2", "a")}, []string{"a", "b"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, nodes := become(t, site(t, gr(nil), nil, tt.objects...), gr(nil), wanted); !cmp.Equal(nodes, tt.want) {
				t.Errorf("the order is %v, want %v", nodes, tt.want)
			}
		})
	}
}
