package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
	"github.com/topsops/gcu-operator/test/fixture"
)

// evidenceLabel is on the nodes of TestTwoLyingNodesTakeNoFleetBack.
const evidenceLabel = "example.com/evidence"

// TestTwoLyingNodesTakeNoFleetBack: two of four nodes report that the new version is not ready there. The manager,
// with its own token, starts no more nodes, and goes back only when the policy asks for no more evidence.
func TestTwoLyingNodesTakeNoFleetBack(t *testing.T) {
	s := cluster(t)
	admin := s.Client(t, apiserver.Admin)
	ds := evidenceDaemonSet(t, admin)
	nodes := []string{"evidence-liar-1", "evidence-liar-2", "evidence-3", "evidence-4"}
	for _, name := range nodes {
		node := fixture.Node(name)
		node.UID, node.Labels = "", map[string]string{evidenceLabel: "true"}
		check(t, admin.Create(t.Context(), node))
		t.Cleanup(func() { check(t, admin.Delete(context.Background(), node)) })
		check(t, runEvidencePod(t.Context(), admin, ds, name, fixture.OldHash))
	}
	startUpdater(t, s)
	rollout := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Name: ds.Name}}
	// until waits until the rollout is in a state, and meanwhile runs the pods that the nodes lack.
	until := func(what string, holds func() bool) {
		t.Helper()
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 2*patience, true, func(ctx context.Context) (bool, error) {
			for _, name := range nodes {
				if err := replaceEvidencePod(ctx, admin, ds, name); err != nil {
					return false, err
				}
			}
			if err := client.IgnoreNotFound(admin.Get(ctx, client.ObjectKeyFromObject(rollout), rollout)); err != nil {
				return false, err
			}
			return holds(), nil
		})
		if err != nil {
			t.Fatalf("%s: %v: %+v", what, err, rollout.Status)
		}
	}
	until("the first version is good", func() bool { return rollout.Status.LastKnownGood != nil })
	deployNew(t, admin, ds)
	says := func() string {
		i := slices.IndexFunc(rollout.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == topsv1.RolloutHalted && c.Status == metav1.ConditionTrue
		})
		if i < 0 {
			return ""
		}
		return rollout.Status.Conditions[i].Message
	}
	until("the rollout is halted", func() bool { return strings.Contains(says(), "that requires 3 failed nodes") })
	awaitPasses(t, admin, ds, 10)
	until("it is still halted", func() bool { return strings.Contains(says(), "that requires 3 failed nodes") })
	image := func() string {
		check(t, admin.Get(t.Context(), client.ObjectKeyFromObject(ds), ds))
		return ds.Spec.Template.Spec.Containers[0].Image
	}
	if got := image(); got != "i:new" || rollout.Status.Rollback != nil {
		t.Fatalf("two nodes took the fleet back to %s: %+v", got, rollout.Status.Rollback)
	}
	policy := &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "evidence"}}
	check(t, merge(t.Context(), admin, policy, `{"spec":{"failure":{"minFailedNodes":2}}}`))
	until("an administrator who trusts the nodes has the fleet taken back", func() bool { return image() == "i:old" })
}

// evidenceDaemonSet creates a DaemonSet that is taken back when nodes fail, its first revision, and its policy.
func evidenceDaemonSet(t *testing.T, admin client.Client) *appsv1.DaemonSet {
	t.Helper()
	policy := &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "evidence"}, Spec: topsv1.UpgradePolicySpec{ProgressDeadlineSeconds: ptr.To[int32](2),
		ProbationSeconds: ptr.To[int32](0), Failure: &topsv1.FailurePolicy{Action: topsv1.FailureRollback}}}
	check(t, admin.Create(t.Context(), policy))
	t.Cleanup(func() { check(t, admin.Delete(context.Background(), policy)) })
	ds := daemonSet("evidence", "")
	ds.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
	ds.Spec.Template.Spec.NodeSelector = map[string]string{evidenceLabel: "true"}
	ds.Spec.Template.Spec.Containers[0].Image = "i:old"
	ds.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationMaxUnavailable: "100%", topsv1.AnnotationUpgradePolicy: policy.Name}
	check(t, admin.Create(t.Context(), ds))
	t.Cleanup(func() { check(t, admin.Delete(context.Background(), ds)) })
	addEvidenceRevision(t, admin, ds, 0)
	return ds
}

// addEvidenceRevision does what the DaemonSet controller does with a new template: it is the first one or the second.
func addEvidenceRevision(t *testing.T, admin client.Client, ds *appsv1.DaemonSet, i int) {
	t.Helper()
	r := fixture.RevisionsOf(ds, fixture.OldHash, fixture.NewHash)[i]
	r.UID, r.Data.Raw = "", fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"labels":{"app":"evidence"}},"spec":{"nodeSelector":{%q:"true"},"containers":[{"name":"c","image":%q}]},"$patch":"replace"}}}`,
		evidenceLabel, ds.Spec.Template.Spec.Containers[0].Image)
	check(t, admin.Create(t.Context(), r))
	ds.Status.ObservedGeneration = ds.Generation
	check(t, admin.Status().Update(t.Context(), ds))
}

// deployNew gives the DaemonSet another image.
func deployNew(t *testing.T, admin client.Client, ds *appsv1.DaemonSet) {
	t.Helper()
	ds.Spec.Template.Spec.Containers[0].Image = "i:new"
	check(t, admin.Update(t.Context(), ds))
	addEvidenceRevision(t, admin, ds, 1)
}

// runEvidencePod runs a pod of the DaemonSet on a node. That of the new version is not ready on a node that lies.
func runEvidencePod(ctx context.Context, admin client.Client, ds *appsv1.DaemonSet, node, hash string) error {
	pod := fixture.PodOn(ds, node, hash)
	pod.UID, pod.Spec.Containers = "", ds.Spec.Template.Spec.Containers
	if hash == fixture.NewHash && strings.Contains(node, "liar") {
		pod.Status.Conditions[0].Status = corev1.ConditionFalse
	}
	return apiserver.CreateWithStatus(ctx, admin, pod)
}

// replaceEvidencePod ends a pod that is deleted, as a kubelet does, and runs another one.
func replaceEvidencePod(ctx context.Context, admin client.Client, ds *appsv1.DaemonSet, node string) error {
	pod := fixture.PodOn(ds, node, "")
	if err := admin.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil || pod.DeletionTimestamp == nil {
		return err
	}
	if err := admin.Delete(ctx, pod, client.GracePeriodSeconds(0)); err != nil {
		return err
	}
	return runEvidencePod(ctx, admin, ds, node, fixture.NewHash)
}
