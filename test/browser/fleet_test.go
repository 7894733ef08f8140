package browser

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

const (
	namespace = "kube-system"
	zones     = 3
	revision  = "r2"
)

// fleet is a gr in the middle of a rollout, without an operator.
type fleet struct {
	client.Client
	t       *testing.T
	name    string
	nodes   int
	rollout *topsv1.DaemonRollout
}

// newFleet creates a gr with one DaemonSet on nodes, the first third of which is updated: wave canary is complete, and wave
// main waits for an approval.
func newFleet(t *testing.T, c client.Client, name string, nodes int) *fleet {
	t.Helper()
	f := &fleet{Client: c, t: t, name: name, nodes: nodes}
	f.create(&topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topsv1.UpgradePolicySpec{Window: &topsv1.MaintenanceWindow{Start: "22:00", DurationMinutes: 480, TimeZone: "Asia/Shanghai"}, Waves: []topsv1.Wave{
		{Name: "canary", Selector: &metav1.LabelSelector{}}, {Name: "main", Selector: &metav1.LabelSelector{}, Approval: topsv1.ApprovalManual}}}})
	gr := &topsv1.GcuResource{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{topsv1.AnnotationUpgradePolicy: name, topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate"}},
		Spec:       topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "2.0"}},
		Status: topsv1.GcuResourceStatus{ObservedGeneration: 1, Phase: topsv1.PhaseRunning, ReadyResource: "1/1",
			ResourceStatuses: []topsv1.ResourceStatus{{Name: "driver", Namespace: namespace, Status: topsv1.PhaseRunning}}}}
	f.create(gr)
	labels := map[string]string{"app": name}
	set := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{topsv1.LabelGcuResource: name, topsv1.LabelManagedBy: topsv1.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: "GcuResource", Name: name, UID: gr.UID, Controller: ptr.To(true)}}},
		Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{NodeSelector: map[string]string{"fleet": name}, Containers: []corev1.Container{{Name: "main", Image: "app:2"}}}}},
		Status: appsv1.DaemonSetStatus{ObservedGeneration: 1}}
	f.create(set)
	owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: name, UID: set.UID, Controller: ptr.To(true)}}
	hashed := func(hash string) map[string]string {
		return map[string]string{"app": name, appsv1.ControllerRevisionHashLabelKey: hash}
	}
	for i, hash := range []string{"old", "new"} {
		f.create(&appsv1.ControllerRevision{Revision: int64(i + 1), Data: runtime.RawExtension{Raw: []byte(`{"spec":{"template":{}}}`)},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-" + hash, Labels: hashed(hash), OwnerReferences: owner}})
	}
	var group errgroup.Group
	group.SetLimit(16)
	for i := range nodes {
		group.Go(func() error {
			hash := "old"
			if i < f.updated() {
				hash = "new"
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node(i), Labels: map[string]string{"fleet": name, corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%zones)}},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: f.node(i), Labels: hashed(hash), OwnerReferences: owner},
				Spec:   corev1.PodSpec{NodeName: f.node(i), TerminationGracePeriodSeconds: ptr.To[int64](0), Containers: []corev1.Container{{Name: "main", Image: "app:1"}}},
				Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}
			f.create(node)
			f.create(pod)
			return nil
		})
	}
	_ = group.Wait()
	f.rollout = &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "GcuResource", Name: name}},
		Status: topsv1.DaemonRolloutStatus{Strategy: "AdvancedRollingUpdate", Revision: revision, Total: int32(nodes), Updated: int32(f.updated()),
			HeldNodes: int32(nodes - f.updated()), Waiting: []topsv1.WaitingNote{{Reason: "AwaitingApproval", Nodes: int32(nodes - f.updated()), Message: "wave main waits for an approval"}},
			Waves: []topsv1.WaveStatus{{Name: "canary", Total: int32(f.updated()), Updated: int32(f.updated()), CompletedTime: ptr.To(metav1.Now())},
				{Name: "main", Total: int32(nodes - f.updated())}, {Name: "rest"}},
			MaxUnavailable: int32(nodes/10 + 1),
			Conditions:     []metav1.Condition{{Type: topsv1.RolloutProgressing, Status: metav1.ConditionTrue, Reason: "AwaitingApproval", Message: "wave main waits for an approval", LastTransitionTime: metav1.Now()}}}}
	f.create(f.rollout)
	return f
}

// updated is the number of updated nodes at the beginning.
func (f *fleet) updated() int { return f.nodes / 3 }

func (f *fleet) node(i int) string { return fmt.Sprintf("%s-%04d", f.name, i) }

// create creates an object with its status.
func (f *fleet) create(o client.Object) {
	f.t.Helper()
	if err := apiserver.CreateWithStatus(f.t.Context(), f, o); err != nil {
		f.t.Error(err)
	}
}

// fail says in the rollout that a node failed.
func (f *fleet) fail(i int) {
	f.t.Helper()
	f.failAs(i, "CrashLooping", "container main crash-loops")
}

func (f *fleet) failAs(i int, reason, message string) {
	f.t.Helper()
	if err := f.Get(f.t.Context(), client.ObjectKeyFromObject(f.rollout), f.rollout); err != nil {
		f.t.Fatal(err)
	}
	f.rollout.Status.FailedNodes++
	f.rollout.Status.HeldNodes--
	f.rollout.Status.Waiting[0].Nodes--
	f.rollout.Status.Failed = append(f.rollout.Status.Failed, topsv1.NodeNote{Node: f.node(i), Reason: reason, Message: message, Since: metav1.Now()})
	if err := f.Status().Update(f.t.Context(), f.rollout); err != nil {
		f.t.Fatal(err)
	}
}

// pause says in the rollout that it is paused.
func (f *fleet) pause() {
	f.t.Helper()
	check(f.t, f.Get(f.t.Context(), client.ObjectKeyFromObject(f.rollout), f.rollout))
	meta.SetStatusCondition(&f.rollout.Status.Conditions, metav1.Condition{Type: topsv1.RolloutPaused, Status: metav1.ConditionTrue, Reason: topsv1.ReasonPaused})
	check(f.t, f.Status().Update(f.t.Context(), f.rollout))
}

// change changes the spec of the gr.
func (f *fleet) change(version string) {
	f.t.Helper()
	gr := &topsv1.GcuResource{}
	check(f.t, f.Get(f.t.Context(), client.ObjectKey{Name: f.name}, gr))
	gr.Spec.Driver.Version = version
	check(f.t, f.Update(f.t.Context(), gr))
}

// paused reports whether the gr is to be paused.
func (f *fleet) paused() bool {
	f.t.Helper()
	gr := &topsv1.GcuResource{}
	check(f.t, f.Get(f.t.Context(), client.ObjectKey{Name: f.name}, gr))
	return gr.Annotations[topsv1.AnnotationPaused] == "true"
}

// approved reports whether wave main is approved.
func (f *fleet) approved() bool {
	f.t.Helper()
	if err := f.Get(f.t.Context(), client.ObjectKeyFromObject(f.rollout), f.rollout); err != nil {
		f.t.Fatal(err)
	}
	return strings.Contains(f.rollout.Annotations[topsv1.AnnotationApprovedWaves], revision+"/main")
}

// mayRead gives a user the right to read everything.
func mayRead(t *testing.T, server *apiserver.Server, user string) {
	t.Helper()
	c := server.Client(t, apiserver.Admin)
	check(t, c.Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}}}))
	check(t, c.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}}))
	server.AwaitRights(t, user)
}
