package nodeupgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/fixture"
)

const (
	accelerator = "enflame.com/gcu"
	driver      = upgradeplan.TargetDriver
	plugin      = upgradeplan.TargetDevicePlugin
	exporter    = upgradeplan.TargetExporter
	toolkit     = upgradeplan.TargetToolkit
)

// stage is one node on the API server, with the DaemonSets of one namespace.
type stage struct {
	*plane
	t         testing.TB
	ctx       context.Context
	namespace string
	node      string
	now       time.Time
	machine   *operation.Machine
	line      *connection
	events    *recorder
	r         *Reconciler
	gr        *topsv1.GcuResource

	// components have a DaemonSet each, at revision.
	components []string
	revision   map[string]string
	created    map[string]int
	// host is the agent's report.
	host    topsv1.HostReport
	silent  bool
	results map[string]topsv1.HostTaskState
	// ahead is how far the clock of the controller is ahead of the API server's.
	ahead time.Duration
	// simulated, when set, takes a turn instead, and patience is how many.
	simulated func()
	patience  int
}

// recorder keeps events as "Type Reason message".
type recorder struct{ lines []string }

func (r *recorder) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	r.lines = append(r.lines, kind+" "+reason+" "+fmt.Sprintf(note, args...))
}

var _ events.EventRecorder = (*recorder)(nil)

func newStage(t *testing.T, components ...string) *stage {
	t.Helper()
	s := bareStage(t, components...)
	s.plane = apiServer(t)
	s.set()
	t.Cleanup(s.leave)
	return s
}

// bareStage returns a stage without an API server.
func bareStage(t testing.TB, components ...string) *stage {
	return &stage{t: t, ctx: context.Background(), components: components, patience: 150,
		now: time.Now().Truncate(time.Second), line: &connection{}, events: &recorder{}, revision: map[string]string{}, created: map[string]int{},
		host: topsv1.HostReport{Devices: ptr.To(int32(8)), FreeDiskBytes: ptr.To(int64(1 << 40)), BootID: "boot",
			Runtime: &topsv1.RuntimeReport{Engine: "docker", Default: "runc", RestartStopsContainers: ptr.To(false)}},
	}
}

// set creates the objects of a stage, and starts the controller.
func (s *stage) set() {
	s.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "nu-"}}
	s.must(s.admin.Create(s.ctx, ns))
	s.namespace, s.node = ns.Name, ns.Name
	var err error
	s.machine, err = operation.New(upgradeplan.DefaultBook())
	s.must(err)
	s.makeNode()
	s.makeGcuResource()
	for _, c := range s.components {
		s.makeDaemonSet(c)
	}
	s.world()
	s.start()
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// start starts the controller without any memory.
func (s *stage) start() {
	s.t.Helper()
	s.line = &connection{deleted: map[types.UID]int{}, writes: s.line.writes}
	cached, direct, evictor, err := s.connect()
	s.must(err)
	c, live := s.line.client(cached), s.line.client(direct)
	clock := func() time.Time { return s.now }
	registry := prometheus.NewRegistry()
	s.r = New(Options{Client: c, Live: live, Namespace: "gcu-system", Machine: s.machine, Recorder: s.events, Clock: clock, Metrics: NewMetrics(registry), Ahead: func(time.Time) time.Duration { return s.ahead },
		Drainer: drain.Drainer{Live: live, Evictor: lineEvictor{s.line, evictor}, Metrics: drain.NewMetrics(registry),
			Self: eviction.Self{NamespacedName: client.ObjectKey{Namespace: s.namespace, Name: "operator"}}}})
}

// leave removes everything that other tests could see.
func (s *stage) leave() {
	var pods corev1.PodList
	s.must(s.admin.List(s.ctx, &pods, client.InNamespace(s.namespace)))
	for i := range pods.Items {
		s.kill(&pods.Items[i])
	}
	for _, o := range []client.Object{s.gr, &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: s.node}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node}}} {
		s.must(client.IgnoreNotFound(s.admin.Delete(s.ctx, o)))
	}
	s.must(s.admin.DeleteAllOf(s.ctx, &appsv1.DaemonSet{}, client.InNamespace(s.namespace)))
}

// kill removes a pod as the kubelet does once its containers have ended.
func (s *stage) kill(pod *corev1.Pod) {
	s.must(client.IgnoreNotFound(s.admin.Delete(s.ctx, pod, client.GracePeriodSeconds(0))))
}

func (s *stage) makeNode() {
	s.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.node, Labels: map[string]string{corev1.LabelHostname: s.node}}}
	s.must(s.admin.Create(s.ctx, node))
	nu := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: s.node, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Node", Name: s.node, UID: node.UID}}}}
	s.must(s.admin.Create(s.ctx, nu))
}

// makeGcuResource makes the gr that gives the DaemonSets their names.
func (s *stage) makeGcuResource() {
	s.t.Helper()
	var sets []types.NamespacedName
	for _, c := range s.components {
		sets = append(sets, types.NamespacedName{Namespace: s.namespace, Name: strings.ToLower(c)})
	}
	s.gr = &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Spec: fixture.SpecNaming(sets...)}
	s.must(s.admin.Create(s.ctx, s.gr))
}

func (s *stage) makeDaemonSet(component string) {
	s.t.Helper()
	labels := map[string]string{"app": component}
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: strings.ToLower(component), Labels: map[string]string{topsv1.LabelComponent: component},
		OwnerReferences: fixture.ControlledBy(topsv1.GroupVersion.String(), topsv1.GcuResourceKind, s.gr.Name, s.gr.UID)},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: component + ":1"}}}}}}
	s.must(s.admin.Create(s.ctx, ds))
	s.publish(component, "v1")
}

// publish makes a revision the newest of a component, as the DaemonSet controller does.
func (s *stage) publish(component, revision string) {
	s.t.Helper()
	ds := s.daemonSet(component)
	yes := true
	s.must(s.admin.Create(s.ctx, &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: strings.ToLower(component) + "-" + revision,
			Labels:          map[string]string{"app": component, appsv1.ControllerRevisionHashLabelKey: revision},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: ds.Name, UID: ds.UID, Controller: &yes}}},
		Data: runtime.RawExtension{Raw: []byte("{}")}, Revision: int64(len(s.revision[component+"/all"]) + 1)}))
	s.revision[component+"/all"] += "i"
	s.revision[component] = revision
	ds.Status.ObservedGeneration = ds.Generation
	s.must(s.admin.Status().Update(s.ctx, ds))
}

func (s *stage) daemonSet(component string) *appsv1.DaemonSet {
	s.t.Helper()
	ds := &appsv1.DaemonSet{}
	s.must(s.admin.Get(s.ctx, client.ObjectKey{Namespace: s.namespace, Name: strings.ToLower(component)}, ds))
	return ds
}

func (s *stage) readNode() *corev1.Node {
	s.t.Helper()
	node := &corev1.Node{}
	s.must(s.admin.Get(s.ctx, client.ObjectKey{Name: s.node}, node))
	return node
}

func (s *stage) upgrade() *topsv1.NodeUpgrade {
	s.t.Helper()
	nu := &topsv1.NodeUpgrade{}
	s.must(s.admin.Get(s.ctx, client.ObjectKey{Name: s.node}, nu))
	return nu
}

// podsOf returns the pods of a component on the node.
func (s *stage) podsOf(component string) []corev1.Pod {
	s.t.Helper()
	var pods corev1.PodList
	s.must(s.admin.List(s.ctx, &pods, client.InNamespace(s.namespace), client.MatchingLabels{"app": component}))
	return pods.Items
}

// offer requests a granted operation for the newest revisions of components.
func (s *stage) offer(id string, changed ...string) {
	s.t.Helper()
	nu := s.upgrade()
	nu.Spec.Operation = s.operation(id, changed...)
	quick(nu.Spec.Operation)
	s.must(s.admin.Update(s.ctx, nu, client.FieldOwner("planner")))
}

func (s *stage) operation(id string, changed ...string) *topsv1.NodeOperation {
	s.t.Helper()
	plan := upgradeplan.Node{Name: s.node, Changed: changed, Deployed: s.components}
	mission, err := upgradeplan.Plan(upgradeplan.DefaultBook(), []upgradeplan.Node{plan}, 0)
	s.must(err)
	op := &topsv1.NodeOperation{ID: id, NodeUID: s.readNode().UID, Rollout: "ns/gr", Revision: "r2", Purpose: topsv1.PurposeUpgrade, Granted: true}
	for _, c := range s.components {
		op.Targets = append(op.Targets, topsv1.OperationTarget{Component: c, Revision: s.revision[c], Previous: "v1",
			DaemonSet: topsv1.NamespacedRef{Namespace: s.namespace, Name: strings.ToLower(c), UID: s.daemonSet(c).UID}})
	}
	for _, stage := range mission[0][0] {
		var names topsv1.JobStage
		for _, task := range stage {
			names = append(names, topsv1.TaskName(task.String()))
		}
		op.Job = append(op.Job, names)
	}
	return op
}

// quick shortens the deadlines of an operation.
func quick(op *topsv1.NodeOperation) {
	op.Deadlines = topsv1.OperationDeadlines{SoakSeconds: 1, VerifySeconds: 15, ProgressSeconds: 60}
}

// change changes the NodeUpgrade as another client.
func (s *stage) change(how func(*topsv1.NodeUpgrade)) {
	s.t.Helper()
	nu := s.upgrade()
	before := nu.DeepCopy()
	how(nu)
	s.must(s.admin.Patch(s.ctx, nu, client.MergeFrom(before), client.FieldOwner("planner")))
}

// workload makes a pod that uses the accelerator.
func (s *stage) workload(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	s.t.Helper()
	yes := true
	gcus := corev1.ResourceList{accelerator: resource.MustParse("1")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{"app": "work"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "work", UID: "work", Controller: &yes}}},
		Spec: corev1.PodSpec{NodeName: s.node, Containers: []corev1.Container{{Name: "main", Image: "work:1",
			Resources: corev1.ResourceRequirements{Requests: gcus, Limits: gcus}}}}}
	for _, with := range change {
		with(pod)
	}
	s.must(s.admin.Create(s.ctx, pod))
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	s.must(s.admin.Status().Update(s.ctx, pod))
	return pod
}

// budget makes a PodDisruptionBudget for pods labeled app, and returns what sets the evictions that
// it allows, as the disruption controller does.
func (s *stage) budget(app string) (allow func(int32)) {
	s.t.Helper()
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "keep"},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
	s.must(s.admin.Create(s.ctx, b))
	return func(n int32) {
		b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: n, CurrentHealthy: 1, DesiredHealthy: 1 - n, ExpectedPods: 1}
		s.must(s.admin.Status().Update(s.ctx, b))
	}
}

// untouched fails the test if a pod was evicted or the Node written to; dry runs do not count.
func (s *stage) untouched() {
	s.t.Helper()
	for _, write := range s.line.writes {
		if strings.HasPrefix(write, "evict") || strings.Contains(write, "Node n") {
			s.t.Errorf("written: %s", write)
		}
	}
}

// reconcile makes one pass of the controller.
func (s *stage) reconcile() (ctrl.Result, error) {
	return s.r.Reconcile(s.ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: s.node}})
}

// turnTime is how long a turn takes.
const turnTime = 3 * time.Second

// turn lets some time pass, in which every actor acts once.
func (s *stage) turn() {
	s.t.Helper()
	if s.simulated != nil {
		s.simulated()
		return
	}
	s.now = s.now.Add(turnTime)
	s.world()
	if _, err := s.reconcile(); err != nil && !errors.Is(err, errKilled) {
		s.t.Fatal(err)
	}
}

// until takes turns until a condition holds.
func (s *stage) until(what string, is func(*topsv1.OperationStatus) bool) *topsv1.OperationStatus {
	s.t.Helper()
	for range s.patience {
		if op := s.upgrade().Status.Operation; op != nil && is(op) {
			return op
		}
		s.turn()
	}
	op := s.upgrade().Status.Operation
	s.t.Fatalf("not reached: %s; it is %+v", what, op)
	return nil
}

func (s *stage) untilTask(task string) {
	s.t.Helper()
	s.until(task, func(op *topsv1.OperationStatus) bool { return op.Task == s.node+"_"+task })
}

// untilOver takes turns until the operation is over, and returns how it ended.
func (s *stage) untilOver() string {
	s.t.Helper()
	op := s.until("its end", func(op *topsv1.OperationStatus) bool { return op.Phase.Final() })
	if op.Held {
		return string(op.Phase) + " held " + op.Reason
	}
	return string(op.Phase) + " " + op.Reason
}

// marks returns what the operator has set on the node for an operation.
func (s *stage) marks() string {
	s.t.Helper()
	node := s.readNode()
	var marks []string
	if node.Spec.Unschedulable {
		marks = append(marks, "cordoned")
	}
	if by := node.Annotations[topsv1.AnnotationCordonedBy]; by != "" {
		marks = append(marks, "by "+by)
	}
	if id := operation.TaintedFor(node); id != "" {
		marks = append(marks, "closed for "+id)
	}
	return strings.Join(marks, ", ")
}

// revisions returns the revisions of the ready pods.
func (s *stage) revisions() string {
	s.t.Helper()
	var shown []string
	for _, c := range s.components {
		for _, pod := range s.podsOf(c) {
			if pod.DeletionTimestamp == nil && isReady(&pod) {
				shown = append(shown, c+" "+pod.Labels[appsv1.ControllerRevisionHashLabelKey])
			}
		}
	}
	slices.Sort(shown)
	return strings.Join(shown, ", ")
}
