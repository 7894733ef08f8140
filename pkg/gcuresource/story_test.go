package gcuresource

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/world"
)

// story is an action of a user, with its prerequisites.
type story struct {
	name string
	// steps run one after the other, each after the one before has finished. Faults happen after
	// the last has begun.
	steps []func(*scene) error
}

const hero = "gpu"

// heroSpec returns everything that may be deployed together, except gfd.
func heroSpec() topsv1.GcuResourceSpec {
	spec := world.OnNodes()
	spec.GFD = nil
	spec.Nightingale, spec.Volcano = &topsv1.NightingaleSpec{}, &topsv1.VolcanoSpec{}
	return spec
}

func deployAll(s *scene) error {
	return s.api.Create(context.Background(), &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: hero, Annotations: map[string]string{
		topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"}}, Spec: s.spec})
}

// upgradeAll changes three components, adds one and removes one.
func upgradeAll(s *scene) error {
	return s.edit(func(gr *topsv1.GcuResource) {
		gr.Spec.Driver.Version, gr.Spec.Exporter.Version = "v2", "v2"
		gr.Spec.Nightingale.Redis = &topsv1.BaseFields{Version: "v2"}
		gr.Spec.GFD, gr.Spec.Volcano = &topsv1.BaseFields{}, nil
	})
}

func goBack(s *scene) error {
	return s.edit(func(gr *topsv1.GcuResource) {
		metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationRollbackTo, topsv1.RollbackToPrevious)
	})
}

func deleteHero(s *scene) error {
	return s.api.Delete(context.Background(), &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: hero}})
}

// halfway starts one action, lets it run for some turns only, then starts another.
func halfway(turns int, do, then func(*scene) error) func(*scene) error {
	return func(s *scene) error {
		if err := do(s); err != nil {
			return err
		}
		for range turns {
			if err := s.turn(); err != nil {
				return err
			}
			if err := s.rest.step(); err != nil {
				return err
			}
		}
		return then(s)
	}
}

var stories = []story{
	{"deployment", []func(*scene) error{deployAll}},
	{"upgrade", []func(*scene) error{deployAll, upgradeAll}},
	{"rollback", []func(*scene) error{deployAll, upgradeAll, goBack}},
	{"deletion", []func(*scene) error{deployAll, deleteHero}},
	{"deletion during the deployment", []func(*scene) error{halfway(6, deployAll, deleteHero)}},
	{"deletion during an upgrade", []func(*scene) error{deployAll, halfway(1, upgradeAll, deleteHero)}},
	{"rejection", []func(*scene) error{deployAll, upgradeAll, reject}},
}

// scene is a cluster with one operator process.
type scene struct {
	api  client.WithWatch
	rest *cluster
	// operator is what the operator process connects to.
	operator client.WithWatch
	line     *connection
	gcu      *Reconciler
	labeler  *NodeLabeler
	now      time.Time
	// spec is the spec to deploy.
	spec topsv1.GcuResourceSpec
}

// newScene returns a scene with a process without faults.
func newScene(api, operator client.WithWatch) *scene {
	s := &scene{api: api, operator: operator, rest: &cluster{Client: api}, now: world.Noon, spec: heroSpec()}
	s.restart()
	return s
}

// restart replaces the process, with an empty memory.
func (s *scene) restart() {
	s.line = connect(s.operator)
	clock := func() time.Time { return s.now }
	s.gcu = &Reconciler{Client: cached(s.line), APIReader: s.line, Recorder: silent{}, Namespace: revisionNamespace, Clock: clock}
	s.labeler = &NodeLabeler{Client: cached(s.line), APIReader: s.line, Namespace: revisionNamespace}
}

// silent is a recorder that drops events.
type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

// copied returns another scene in the same state, with a process with the same memory.
func (s *scene) copied() *scene {
	api := s.api.(*memoryAPI).copied()
	c := newScene(api, api)
	known, same := s.gcu.passes.of(hero), c.gcu.passes.of(hero)
	same.rendered, same.applied, same.begun, same.version = maps.Clone(known.rendered), maps.Clone(known.applied), known.begun, known.version
	return c
}

// turn makes one pass over the gr and one over each node.
func (s *scene) turn() error {
	ctx := log.IntoContext(context.Background(), logr.Discard())
	_, err := s.gcu.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: hero}})
	return errors.Join(err, s.label())
}

// label passes over the labels of each node.
func (s *scene) label() error {
	ctx := log.IntoContext(context.Background(), logr.Discard())
	var errs []error
	for _, node := range sceneNodes {
		_, err := s.labeler.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: node}})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

var errRestless = errors.New("it does not come to rest")

// goOn takes turns until nothing is left to do. look, if not nil, is called before each turn.
func (s *scene) goOn(look func()) error {
	var last error
	for range 60 {
		if look != nil {
			look()
		}
		wrote := s.line.counts[true]
		last = s.turn()
		if err := s.rest.step(); err != nil {
			return err
		}
		if last == nil && s.line.counts[true] == wrote && !s.rest.acted {
			return nil
		}
	}
	return errors.Join(errRestless, last)
}

func (s *scene) edit(change func(*topsv1.GcuResource)) error {
	gr := &topsv1.GcuResource{}
	if err := s.api.Get(context.Background(), client.ObjectKey{Name: hero}, gr); err != nil {
		return err
	}
	before := gr.DeepCopy()
	change(gr)
	return s.api.Patch(context.Background(), gr, client.MergeFrom(before))
}

var sceneNodes = []string{"node-1", "node-2"}

// strangers are objects that only their owner may change.
func strangers() []client.Object {
	labels := map[string]string{"app": "foreign"}
	return []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "foreign",
			Labels: map[string]string{topsv1.LabelGcuResource: hero, topsv1.LabelManagedBy: topsv1.ManagedBy}}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "foreign"},
			Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}},
	}
}

// inMemory returns a scene with nodes, some of them labeled, and strangers.
func inMemory(t *testing.T) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), topsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	api := newMemoryAPI(scheme)
	s := newScene(api, api)
	ctx := context.Background()
	objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system"}}}
	for _, name := range sceneNodes {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			"feature.node.kubernetes.io/pci-1e36.present": "true", "foreign": "label"}}})
	}
	objects = append(objects, installedRoles(t)...)
	for _, o := range append(objects, strangers()...) {
		if err := api.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
		if node, ok := o.(*corev1.Node); ok {
			before := node.DeepCopy()
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			if err := api.Status().Patch(ctx, node, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return s
}

// play runs the steps of a story until the last one has begun.
func (st story) play(s *scene) error {
	for i, step := range st.steps {
		if i > 0 {
			if err := s.goOn(nil); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
		if err := step(s); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

// portrait returns the state of the cluster: every object, by its key, without fields that may
// differ between equal ones.
func (m *memoryAPI) portrait() map[string]string {
	p := map[string]string{}
	for key, e := range m.entries {
		if e.face == "" {
			e.face = faceOf(e.object)
		}
		p[key.String()] = e.face
	}
	return p
}

// faceOf encodes an object without fields that may differ between equal ones.
func faceOf(o *unstructured.Unstructured) string {
	content := runtime.DeepCopyJSON(o.Object)
	metadata := content["metadata"].(map[string]any)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "deletionTimestamp"} {
		delete(metadata, field)
	}
	owners, _ := metadata["ownerReferences"].([]any)
	for _, owner := range owners {
		delete(owner.(map[string]any), "uid")
	}
	if status, ok := content["status"].(map[string]any); ok && o.GetKind() == topsv1.GcuResourceKind {
		withoutTimes(status)
	}
	if o.GetKind() == "Secret" {
		delete(content, "stringData")
		delete(content, "data")
	}
	encoded, err := json.Marshal(content)
	if err != nil {
		return err.Error()
	}
	return string(encoded)
}

// withoutTimes removes the times from the status of a gr, and the order of its conditions, which
// depends on them.
func withoutTimes(status map[string]any) {
	for _, list := range []string{"conditions", "standardConditions"} {
		conditions, _ := status[list].([]any)
		for _, c := range conditions {
			delete(c.(map[string]any), "lastUpdateTime")
			delete(c.(map[string]any), "lastTransitionTime")
		}
		slices.SortFunc(conditions, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
}

// remade returns the objects that were created more often than in the undisturbed course of the
// story.
func (m *memoryAPI) remade(undisturbed *memoryAPI) []string {
	var list []string
	for key, n := range m.made {
		if n > undisturbed.made[key] {
			list = append(list, key.String())
		}
	}
	slices.SortFunc(list, strings.Compare)
	return list
}
