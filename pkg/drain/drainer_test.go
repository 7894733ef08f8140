package drain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
)

func (s *stage) drainer() Drainer {
	s.t.Helper()
	var httpClient *http.Client
	httpClient, err := rest.HTTPClientFor(s.config)
	s.must(err)
	evictor, err := NewEvictor(s.config, httpClient)
	s.must(err)
	return Drainer{Live: s.manager, Evictor: evictor, Metrics: NewMetrics(prometheus.NewRegistry())}
}

// run creates a pod and sets its status.
func (s *stage) run(p corev1.Pod) *corev1.Pod {
	s.t.Helper()
	status := p.Status
	p.Namespace, p.UID = s.namespace, ""
	for i := range p.OwnerReferences {
		set := &appsv1.DaemonSet{}
		if s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: p.OwnerReferences[i].Name}, set) == nil {
			p.OwnerReferences[i].UID = set.UID
		}
	}
	s.must(s.admin.Create(s.t.Context(), &p))
	p.Status = status
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	s.must(s.admin.Status().Update(s.t.Context(), &p))
	s.t.Cleanup(func() { s.kill(&p) })
	return &p
}

// kill removes a pod as the kubelet does once its containers have ended.
func (s *stage) kill(p *corev1.Pod) {
	s.t.Helper()
	if err := s.admin.Delete(context.Background(), p, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		s.t.Error(err)
	}
}

// budget creates a PodDisruptionBudget for pods labeled app: name.
func (s *stage) budget(name, app string) *policyv1.PodDisruptionBudget {
	s.t.Helper()
	b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
	s.must(s.admin.Create(s.t.Context(), b))
	return b
}

// allow plays the disruption controller: it sets the allowed disruptions.
func (s *stage) allow(b *policyv1.PodDisruptionBudget, disruptions int32) {
	s.t.Helper()
	s.must(s.admin.Get(s.t.Context(), client.ObjectKeyFromObject(b), b))
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: disruptions,
		CurrentHealthy: 1, DesiredHealthy: 1 - disruptions, ExpectedPods: 1}
	s.must(s.admin.Status().Update(s.t.Context(), b))
}

func (s *stage) pass(d Drainer, p eviction.Policy, attempts eviction.Attempts, after time.Duration) eviction.Result {
	s.t.Helper()
	s.setCordoned("n1", true)
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	r, err := d.Pass(ctx, "n1", p, attempts, eviction.StartAt(start), start.Add(after))
	s.must(err)
	return r
}

// patience is the maximum duration of a pass; a client that honors Retry-After takes longer.
const patience = 8 * time.Second

// seen returns the states of a result by pod name.
func seen(r eviction.Result) map[string]eviction.State {
	states := map[string]eviction.State{}
	for _, o := range r.Pods {
		states[o.Pod.Name] = o.State
	}
	return states
}

func (s *stage) expect(r eviction.Result, want map[string]eviction.State) {
	s.t.Helper()
	if diff := cmp.Diff(want, seen(r)); diff != "" {
		s.t.Error(diff)
	}
}

// daemonSet creates a DaemonSet.
func (s *stage) daemonSet(name string) {
	s.t.Helper()
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x"}}}}}}
	s.must(s.admin.Create(s.t.Context(), set))
}

func (s *stage) read(name string) *corev1.Pod {
	s.t.Helper()
	p := &corev1.Pod{}
	s.must(s.admin.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, p))
	return p
}

func TestABudgetIsNamedAndEvictionsGoOnWhenItIsRelaxed(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	guarded := s.run(pod("web-1", labeled("app", "web")))
	s.run(pod("other"))
	budget := s.budget("web", "web")
	s.allow(budget, 0)
	d, policy := s.drainer(), defaultPolicy(t, nil)

	look := func(attempts eviction.Attempts) eviction.Result {
		r, err := d.Expect(t.Context(), "n1", policy, attempts, eviction.StartAt(start), start.Add(time.Hour))
		s.must(err)
		return r
	}
	s.expect(look(nil), map[string]eviction.State{"web-1": eviction.Due, "other": eviction.Due})
	r := s.pass(d, policy, nil, 0)
	s.expect(r, map[string]eviction.State{"web-1": eviction.Refused, "other": eviction.Due})
	if s.read("other").DeletionTimestamp != nil {
		t.Error("a pod is evicted from a node that cannot be emptied")
	}
	want := []eviction.Outcome{{Pod: client.ObjectKeyFromObject(guarded), UID: guarded.UID, State: eviction.Refused,
		Reason: "The disruption budget web needs 1 healthy pods and has 1 currently", Budget: types.NamespacedName{Namespace: s.namespace, Name: "web"}}}
	if diff := cmp.Diff(want, r.Of(eviction.Refused)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, look(r.Attempts).Of(eviction.Refused)); diff != "" {
		t.Errorf("a look later on: %s", diff)
	}
	if len(d.Metrics.blocked) != 1 {
		t.Error("the node does not count as blocked")
	}

	s.allow(budget, 1)
	r = s.pass(d, policy, r.Attempts, eviction.RetryInterval-1)
	s.expect(r, map[string]eviction.State{"web-1": eviction.Refused, "other": eviction.Due})
	r = s.pass(d, policy, r.Attempts, eviction.RetryInterval)
	s.expect(r, map[string]eviction.State{"web-1": eviction.Evicted, "other": eviction.Evicted})
	r = s.pass(d, policy, r.Attempts, eviction.RetryInterval+1)
	s.expect(r, map[string]eviction.State{"web-1": eviction.Terminating, "other": eviction.Terminating})
	asked := s.read("web-1").DeletionTimestamp.Add(-30 * time.Second)
	if got := r.Of(eviction.Terminating)[1].Since; !got.Equal(asked) {
		t.Errorf("it terminates since %v, want %v", got, asked)
	}
	if len(d.Metrics.blocked) != 0 || r.Done() {
		t.Errorf("%v nodes are blocked, done is %t", len(d.Metrics.blocked), r.Done())
	}

	s.kill(s.read("web-1"))
	s.kill(s.read("other"))
	if r = s.pass(d, policy, r.Attempts, time.Minute); !r.Done() {
		t.Errorf("it is not done: %s", r.Message())
	}
}

func TestABudgetThatAllowsOneOfTwoLetsOneLeaveAndThenTheOther(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	s.run(pod("web-1", labeled("app", "web")))
	s.run(pod("web-2", labeled("app", "web")))
	budget := s.budget("web", "web")
	s.allow(budget, 1)
	d, policy := s.drainer(), defaultPolicy(t, nil)
	r := s.pass(d, policy, nil, 0)
	s.expect(r, map[string]eviction.State{"web-1": eviction.Evicted, "web-2": eviction.Refused})
	s.allow(budget, 1)
	s.kill(s.read("web-1"))
	r = s.pass(d, policy, r.Attempts, eviction.RetryInterval)
	s.expect(r, map[string]eviction.State{"web-2": eviction.Evicted})
}

// A pod that leaves later counts as well: each retry of the drain would evict the neighbor again.
func TestANeighborStaysWhileABudgetHoldsAPodThatLeavesLater(t *testing.T) {
	for _, tc := range []struct {
		name        string
		pod         func(*corev1.Pod)
		policy      func(*testing.T) eviction.Policy
		held, freed eviction.State
	}{
		{"a pod of a Job that may complete", ownedBy("batch/v1", "Job"), func(t *testing.T) eviction.Policy {
			return defaultPolicy(t, func(p *topsv1.DrainPolicy) { p.WaitForJobsSeconds = 3600 })
		}, eviction.Running, eviction.Running},
		{"a pod of another DaemonSet, until the device is closed", ofDaemonSet, func(t *testing.T) eviction.Policy {
			return defaultPolicy(t, nil).ReplacingDriver(false)
		}, eviction.Refused, eviction.Skipped},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newStage(t)
			s.node("n1")
			s.daemonSet("owner")
			s.run(pod("later", tc.pod, labeled("app", "later")))
			s.run(pod("neighbor"))
			budget := s.budget("keep", "later")
			s.allow(budget, 0)
			d, policy := s.drainer(), tc.policy(t)
			r := s.pass(d, policy, nil, 0)
			s.expect(r, map[string]eviction.State{"later": tc.held, "neighbor": eviction.Due})
			if s.read("neighbor").DeletionTimestamp != nil {
				t.Error("the neighbor is evicted")
			}
			if want := "PodDisruptionBudget " + s.namespace + "/keep refuses: " + s.namespace + "/later"; !strings.Contains(r.Message(), want) {
				t.Errorf("%q, want %q in it", r.Message(), want)
			}
			s.allow(budget, 1)
			r = s.pass(d, policy, r.Attempts, eviction.RetryInterval)
			s.expect(r, map[string]eviction.State{"later": tc.freed, "neighbor": eviction.Evicted})
			if s.read("later").DeletionTimestamp != nil {
				t.Error("it leaves too early")
			}
		})
	}
}

func TestADryRunAsksForEveryPodAndEvictsNone(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	s.run(pod("free"))
	s.run(pod("web-1", labeled("app", "web")))
	s.allow(s.budget("web", "web"), 0)
	d, asked := s.drainer(), 0
	d.Evictor = before{d.Evictor, func() { asked++ }}
	var last eviction.Attempts
	for range 2 {
		r, err := d.DryRun(t.Context(), "n1", defaultPolicy(t, nil), last, eviction.StartAt(start), start)
		s.must(err)
		s.expect(r, map[string]eviction.State{"web-1": eviction.Refused, "free": eviction.Due})
		last = r.Attempts
	}
	if asked != 2 {
		t.Errorf("%d requests, want one for each pod within %s", asked, eviction.RetryInterval)
	}
	if s.read("free").DeletionTimestamp != nil {
		t.Error("a dry run has evicted a pod")
	}
}

// The API server answers with Retry-After: 10, and client-go would wait.
func TestAnUnprocessedBudgetDoesNotBlockThePass(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	s.run(pod("web-1", labeled("app", "web")))
	s.budget("web", "web")
	r := s.pass(s.drainer(), defaultPolicy(t, nil), nil, 0)
	s.expect(r, map[string]eviction.State{"web-1": eviction.Refused})
	if diff := cmp.Diff(types.NamespacedName{Namespace: s.namespace, Name: "web"}, r.Pods[0].Budget); diff != "" {
		t.Error(diff)
	}
}

func TestAPodWithTwoBudgetsIsAnErrorThatAPersonCanRead(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	s.run(pod("web-1", labeled("app", "web")))
	s.allow(s.budget("one", "web"), 1)
	s.allow(s.budget("two", "web"), 1)
	r := s.pass(s.drainer(), defaultPolicy(t, nil), nil, 0)
	want := []eviction.Outcome{{Pod: types.NamespacedName{Namespace: s.namespace, Name: "web-1"}, State: eviction.Failed,
		Reason: "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."}}
	if diff := cmp.Diff(want, r.Pods, cmpopts.IgnoreFields(eviction.Outcome{}, "UID")); diff != "" {
		t.Error(diff)
	}
}

// before is an Evictor with a hook before each eviction.
type before struct {
	Evictor
	happens func()
}

func (b before) Evict(ctx context.Context, e *policyv1.Eviction) error {
	b.happens()
	return b.Evictor.Evict(ctx, e)
}

func TestAPodThatCameAfterTheOneThatWasSeenLives(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	old := s.run(pod("web-0"))
	d := s.drainer()
	d.Evictor = before{d.Evictor, func() {
		s.kill(old)
		s.run(pod("web-0"))
	}}
	r := s.pass(d, defaultPolicy(t, nil), nil, 0)
	s.expect(r, map[string]eviction.State{"web-0": eviction.Gone})
	if p := s.read("web-0"); p.UID == old.UID || p.DeletionTimestamp != nil {
		t.Errorf("the pod that came after it is UID %s, to be deleted at %v", p.UID, p.DeletionTimestamp)
	}
	if r.Done() {
		t.Error("the node counts as empty")
	}
}

func TestAPodWithoutGracePeriodStaysUntilItsKubeletConfirmsItsEnd(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	s.run(pod("a", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(0)) }))
	policy := defaultPolicy(t, nil)
	s.expect(s.pass(s.drainer(), policy, nil, 0), map[string]eviction.State{"a": eviction.Evicted})
	s.expect(s.pass(s.drainer(), policy, nil, 0), map[string]eviction.State{"a": eviction.Terminating})
}

func TestAPassIsAboutThePodsOfItsNode(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	s.daemonSet("owner")
	s.run(pod("training"))
	s.run(pod("plugin", ofDaemonSet))
	s.run(pod("orphan", ofDaemonSet, func(p *corev1.Pod) { p.OwnerReferences[0].Name = "gone" }))
	s.run(pod("website", withoutGCU))
	s.run(podOn("n2", "elsewhere"))
	self := s.run(pod("operator"))
	d := s.drainer()
	d.Self = eviction.Self{NamespacedName: client.ObjectKeyFromObject(self), UID: self.UID}
	r := s.pass(d, defaultPolicy(t, func(p *topsv1.DrainPolicy) { p.GracePeriodSeconds = ptr.To(int32(7)) }), nil, 0)
	s.expect(r, map[string]eviction.State{"training": eviction.Due, "plugin": eviction.Skipped, "orphan": eviction.Blocked, "operator": eviction.Skipped})
	s.kill(s.read("orphan"))
	r = s.pass(d, defaultPolicy(t, func(p *topsv1.DrainPolicy) { p.GracePeriodSeconds = ptr.To(int32(7)) }), nil, 0)
	s.expect(r, map[string]eviction.State{"training": eviction.Evicted, "plugin": eviction.Skipped, "operator": eviction.Skipped})
	for name, want := range map[string]*int64{"training": ptr.To(int64(7)), "plugin": nil, "website": nil, "elsewhere": nil, "operator": nil} {
		if diff := cmp.Diff(want, s.read(name).DeletionGracePeriodSeconds); diff != "" {
			t.Errorf("grace period of pod %s that is being deleted: %s", name, diff)
		}
	}
}

func TestNoPodIsEvictedFromANodeThatIsNotReady(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	s.run(pod("training"))
	s.setReady("n1", corev1.ConditionUnknown)
	r := s.pass(s.drainer(), defaultPolicy(t, nil), nil, 0)
	s.expect(r, map[string]eviction.State{"training": eviction.Unconfirmed})
	if p := s.read("training"); p.DeletionTimestamp != nil {
		t.Error("the pod is being deleted")
	}
	s.kill(s.read("training"))
	if r := s.pass(s.drainer(), defaultPolicy(t, nil), nil, 0); r.Done() {
		t.Error("a node that does not response counts as empty")
	}
}

// setCordoned cordons or uncordons a node, if there is one, as a person does.
func (s *stage) setCordoned(name string, cordoned bool) {
	s.t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, cordoned))
	s.must(client.IgnoreNotFound(s.admin.Patch(s.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch)))
}

func TestNoPodIsEvictedFromANodeThatSomebodyUncordoned(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	s.run(pod("training"))
	s.setCordoned("n1", false)
	if _, err := s.drainer().Pass(t.Context(), "n1", defaultPolicy(t, nil), nil, eviction.StartAt(start), start); !errors.Is(err, ErrUncordoned) {
		t.Errorf("error %v, want %v", err, ErrUncordoned)
	}
	if p := s.read("training"); p.DeletionTimestamp != nil {
		t.Error("the pod is being deleted")
	}
}

func TestANodeThatIsGoneIsNotEmpty(t *testing.T) {
	s := newStage(t)
	if r := s.pass(s.drainer(), defaultPolicy(t, nil), eviction.Attempts{types.UID("x"): {}}, 0); r.Done() || r.NodeReady {
		t.Errorf("done is %t, ready is %t", r.Done(), r.NodeReady)
	}
}

// ownAndOther runs a pod of a DaemonSet of the operator, own, and one of another, monitor, with the same
// labels and owner.
func (s *stage) ownAndOther(options ...func(*corev1.Pod)) (own, monitor *corev1.Pod) {
	s.t.Helper()
	var pods []*corev1.Pod
	for _, name := range []string{"own", "monitor"} {
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{topsv1.LabelComponent: "exporter"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: "gr", UID: "gr", Controller: ptr.To(true)}}}, Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": name}},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "x"}}}}}}
		s.must(s.admin.Create(s.t.Context(), set))
		pods = append(pods, s.run(pod(name, append(options, ofDaemonSet, func(p *corev1.Pod) { p.OwnerReferences[0].Name = name })...)))
	}
	return pods[0], pods[1]
}

// ofOwn is the set of the UID of a pod's DaemonSet.
func ofOwn(own *corev1.Pod) map[types.UID]bool {
	return map[types.UID]bool{own.OwnerReferences[0].UID: true}
}

// A process of a pod may have a device open that the pod did not ask for: the drain leaves the pod, and does not wait for it if it
// terminates. The driver cannot be removed beneath it all the same, for as long as its process takes to end.
func TestStayingAreThePodsOfProcessesThatADrainLeaves(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	own, monitor := s.ownAndOther(withoutGCU)
	terminating, finished := s.run(pod("terminating", withoutGCU)), s.run(pod("finished", withoutGCU, inPhase(corev1.PodSucceeded)))
	s.must(s.admin.Delete(t.Context(), terminating))
	ending := s.run(pod("ending")) // the drain waits for it
	s.must(s.admin.Delete(t.Context(), ending))
	privileged, training := s.run(pod("privileged", withoutGCU)), s.run(pod("training"))
	left := s.run(pod("left", labeled("drain", "never")))
	s.run(pod("static", static, unmanaged, withoutGCU))
	s.run(pod("website", withoutGCU))
	uids := []string{"", "gone", "x"} // x: see static
	for _, p := range []*corev1.Pod{own, monitor, terminating, ending, finished, privileged, training, left} {
		uids = append(uids, string(p.UID))
	}
	p := defaultPolicy(t, func(p *topsv1.DrainPolicy) {
		p.PodSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "drain", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	})
	got, err := s.drainer().Staying(t.Context(), "n1", uids, p.WithOwn(ofOwn(own)).ReplacingDriver(false))
	s.must(err)
	want := map[string]string{string(monitor.UID): s.namespace + "/monitor", string(privileged.UID): s.namespace + "/privileged",
		string(terminating.UID): s.namespace + "/terminating",
		string(left.UID):        s.namespace + "/left", "x": s.namespace + "/static", "gone": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestUsersAreThePodsOfOthersWithCards(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	own, _ := s.ownAndOther()
	s.run(pod("training"))
	s.run(pod("left", labeled("drain", "never")))
	s.run(pod("website", withoutGCU))
	s.run(pod("finished", inPhase(corev1.PodSucceeded)))
	s.run(podOn("n2", "elsewhere"))
	for _, scope := range []topsv1.DrainScope{topsv1.DrainNone, topsv1.DrainAll} {
		p := defaultPolicy(t, func(p *topsv1.DrainPolicy) {
			p.Scope, p.PodSelector = scope, &metav1.LabelSelector{MatchLabels: map[string]string{"drain": "always"}}
		})
		got, err := s.drainer().Users(t.Context(), "n1", p.WithOwn(ofOwn(own)))
		s.must(err)
		if diff := cmp.Diff([]string{s.namespace + "/left", s.namespace + "/monitor", s.namespace + "/training"}, got); diff != "" {
			t.Errorf("scope %s: %s", scope, diff)
		}
	}
}
