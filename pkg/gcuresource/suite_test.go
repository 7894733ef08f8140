package gcuresource

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// revisionNamespace holds the revisions of specs; clear empties it.
const revisionNamespace = "kube-system"

// testPatience is how long a test waits for the controller: its next attempt may be as far away as failureRetry.
const testPatience = failureRetry + 10*time.Second

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard()) // otherwise a delayed stack trace is printed that looks like a failure
	os.Exit(apiserver.Run(m))
}

// testServer returns the API server of all tests.
func testServer(t *testing.T) *apiserver.Server {
	t.Helper()
	return apiserver.SharedWith(t, (*apiserver.Server).InstallWithVolcano)
}

// testClient returns a client of an API server without a controller-manager: the tests act as the
// DaemonSet controller and the garbage collector.
func testClient(t *testing.T) client.WithWatch {
	t.Helper()
	return testServer(t).Client(t, apiserver.Admin)
}

// stage is a cluster on which the controllers run.
type stage struct {
	client.Client
	t      *testing.T
	mu     sync.Mutex
	writes []string
	// passes counts the passes begun over each gr and each node.
	passes map[string]int
	// fault intercepts the writes of the controllers; nil passes all.
	fault func(write string, send func() error) error
	// stop stops the controllers.
	stop func()
	// after is called when the test has ended and no gr is left.
	after []func()
}

// newStage starts the controllers. When the test ends, it deletes every gr, stops the
// controllers, and removes the nodes and the CRD of nfd.
func newStage(t *testing.T, nodes ...string) *stage {
	t.Helper()
	s := &stage{Client: testClient(t), t: t, passes: map[string]int{}}
	for _, name := range nodes {
		s.addNode(name)
	}
	s.start()
	t.Cleanup(func() {
		s.clear()
		s.stop()
		for _, name := range nodes {
			s.remove(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		s.remove(nfdCRD())
		for _, clean := range s.after {
			clean()
		}
	})
	return s
}

// start starts the controllers with the operator's account.
func (s *stage) start() {
	s.t.Helper()
	api := testServer(s.t)
	mgr, err := ctrl.NewManager(api.As(apiserver.Operator), ctrl.Options{
		Scheme:     api.Scheme,
		Metrics:    server.Options{BindAddress: "0"},
		NewClient:  s.recording,
		Controller: skipNameValidation(),
	})
	s.must(err)
	s.must((&Reconciler{Namespace: revisionNamespace}).SetupWithManager(mgr))
	s.must((&NodeLabeler{Namespace: revisionNamespace}).SetupWithManager(mgr))
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- mgr.Start(ctx) }()
	s.stop = func() {
		cancel()
		if err := <-stopped; err != nil {
			s.t.Errorf("the manager failed: %v", err)
		}
	}
}

func nfdCRD() *unstructured.Unstructured {
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(nfdCRDName)
	return crd
}

// recording returns the manager's client; it records every write, and the first read of a pass.
func (s *stage) recording(config *rest.Config, options client.Options) (client.Client, error) {
	inner, err := client.NewWithWatch(config, options)
	if err != nil {
		return nil, err
	}
	return interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			_, node := o.(*corev1.Node)
			if _, gr := o.(*topsv1.GcuResource); node || gr && len(opts) == 0 { // with options, the read is for a log line
				s.mu.Lock()
				s.passes[key.Name]++
				s.mu.Unlock()
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return s.write("create "+o.GetName(), func() error { return c.Create(ctx, o, opts...) })
		},
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			return s.write("apply "+o.(interface{ GetName() string }).GetName(), func() error { return c.Apply(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return s.write("patch "+o.GetName(), func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return s.write("delete "+o.GetName(), func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return s.write("patch "+sub+" "+o.GetName(), func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	}), nil
}

// write records a write and executes it, or fails as s.fault says.
func (s *stage) write(name string, send func() error) error {
	s.mu.Lock()
	s.writes = append(s.writes, name)
	fault := s.fault
	s.mu.Unlock()
	if fault == nil {
		return send()
	}
	return fault(name, send)
}

// begun returns the number of passes begun over each of some grs and nodes.
func (s *stage) begun(names ...string) (passes []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		passes = append(passes, s.passes[name])
	}
	return passes
}

// written returns the writes since the last call.
func (s *stage) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writes
	s.writes = nil
	return w
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) remove(o client.Object) {
	s.t.Helper()
	s.must(client.IgnoreNotFound(s.Delete(context.Background(), o)))
}

// until waits for a condition; check returns what is still missing, "" if it holds.
func (s *stage) until(what string, check func() string) {
	s.t.Helper()
	var missing string
	for deadline := time.Now().Add(testPatience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if missing = check(); missing == "" {
			return
		}
	}
	s.t.Fatalf("%s: %s", what, missing)
}

// addNode creates a Ready node on which nfd found a GCU.
func (s *stage) addNode(name string) {
	s.t.Helper()
	ctx := context.Background()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		"feature.node.kubernetes.io/pci-1e36.present": "true", "feature.node.kubernetes.io/cpu-hardware_multithreading": "true"}}}
	s.must(s.Create(ctx, node))
	node.Spec.Taints = nil // the API server adds not-ready, and no controller removes it here
	s.must(s.Update(ctx, node))
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	s.must(s.Status().Update(ctx, node))
}

// backgroundly deletes like kubectl: dependents are deleted later.
var backgroundly = client.PropagationPolicy(metav1.DeletePropagationBackground)

func clusterKey(name string) client.ObjectKey { return client.ObjectKey{Name: name} }

func (s *stage) get(o client.Object, namespace, name string) error {
	return s.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: name}, o)
}

func (s *stage) gr(name string) *topsv1.GcuResource {
	s.t.Helper()
	gr := &topsv1.GcuResource{}
	s.must(s.get(gr, "", name))
	return gr
}

func (s *stage) exists(daemonSet string) bool {
	s.t.Helper()
	err := s.get(&appsv1.DaemonSet{}, "kube-system", daemonSet)
	s.must(client.IgnoreNotFound(err))
	return !apierrors.IsNotFound(err)
}

// play acts as the DaemonSet controller: it creates a revision named after the generation, an
// available pod of it on every node, and the status.
func (s *stage) play(name string) {
	s.t.Helper()
	ctx := context.Background()
	ds := &appsv1.DaemonSet{}
	s.until("DaemonSet "+name, func() string {
		if err := s.get(ds, "kube-system", name); err != nil {
			return err.Error()
		}
		return ""
	})
	hash := fmt.Sprintf("g%d", ds.Generation)
	s.must(s.Create(ctx, &appsv1.ControllerRevision{ObjectMeta: s.dependent(ds, ds.Name+"-"+hash, hash), Revision: ds.Generation,
		Data: runtime.RawExtension{Raw: []byte("{}")}}))
	var nodes corev1.NodeList
	s.must(s.List(ctx, &nodes))
	for _, node := range nodes.Items {
		s.runPod(ds, node.Name, hash)
	}
	ds.Status.ObservedGeneration = ds.Generation
	s.must(s.Status().Update(ctx, ds))
}

func (s *stage) dependent(ds *appsv1.DaemonSet, name, hash string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: ds.Namespace,
		Labels: map[string]string{component.LabelName: ds.Name, "controller-revision-hash": hash},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: ds.Name, UID: ds.UID,
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false)}}}
}

// runPod replaces the pod of a DaemonSet on a node by an available one.
func (s *stage) runPod(ds *appsv1.DaemonSet, node, hash string) {
	s.t.Helper()
	ctx := context.Background()
	pod := &corev1.Pod{ObjectMeta: s.dependent(ds, ds.Name+"-"+node, hash),
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "x"}}}}
	s.must(client.IgnoreNotFound(s.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0))))
	s.must(s.Create(ctx, pod))
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	s.must(s.Status().Update(ctx, pod))
}

// collect acts as the garbage collector: it deletes the pods and revisions of a DaemonSet.
func (s *stage) collect(name string) {
	s.t.Helper()
	ctx := context.Background()
	of := []client.DeleteAllOfOption{client.InNamespace("kube-system"), client.MatchingLabels{component.LabelName: name}, client.GracePeriodSeconds(0)}
	s.must(s.DeleteAllOf(ctx, &corev1.Pod{}, of...))
	s.must(s.DeleteAllOf(ctx, &appsv1.ControllerRevision{}, of...))
}

// clear deletes every gr and waits until the controllers release them.
func (s *stage) clear() {
	s.t.Helper()
	ctx := context.Background()
	s.must(s.DeleteAllOf(ctx, &topsv1.GcuResource{}))
	s.until("deleting every gr", func() string {
		s.release()
		for _, object := range []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}} {
			s.must(s.DeleteAllOf(ctx, object, client.InNamespace("kube-system"), client.GracePeriodSeconds(0)))
		}
		var left topsv1.GcuResourceList
		s.must(s.List(ctx, &left))
		if len(left.Items) == 0 {
			return ""
		}
		return fmt.Sprintf("%+v", left.Items[0].Status.Conditions)
	})
}

// reaches waits for the phase and ready count of a gr at its generation.
func (s *stage) reaches(name, phase, ready string) {
	s.t.Helper()
	s.until("gr "+name+" gets "+ready+" "+phase, func() string {
		gr := s.gr(name)
		if gr.Status.Phase == phase && gr.Status.ReadyResource == ready && gr.Status.ObservedGeneration == gr.Generation {
			return ""
		}
		return fmt.Sprintf("%s %s generation %d of %d %+v", gr.Status.ReadyResource, gr.Status.Phase,
			gr.Status.ObservedGeneration, gr.Generation, gr.Status.Conditions)
	})
}

// sees waits until a component has a phase and a message.
func (s *stage) sees(name, component, word, message string) {
	s.t.Helper()
	s.until("component "+component, func() string {
		list := s.gr(name).Status.ResourceStatuses
		i := slices.IndexFunc(list, func(rs topsv1.ResourceStatus) bool { return rs.Name == component })
		if i >= 0 && list[i].Status == word && list[i].Message == message {
			return ""
		}
		return fmt.Sprintf("%+v", list)
	})
}

// nfdCRDName is the CRD that stays when its gr is deleted.
const nfdCRDName = "nodefeaturerules.nfd.k8s-sigs.io"

// example reads a blueprint of the examples folder.
func example(t testing.TB, name string) *topsv1.GcuResource {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	gr := &topsv1.GcuResource{}
	if err := yaml.UnmarshalStrict(raw, gr); err != nil {
		t.Fatalf("decoding %s: %v", name, err)
	}
	return gr
}
