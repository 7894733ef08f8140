package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/test/harness"
)

// A held version runs but becomes Ready only where the test marks it so. It stops a
// rollout at the node that a scenario is about, however slow the machine is.

// setHeld rolls out a new held version.
func (f *fixture) setHeld(ctx context.Context, image string) {
	f.t.Helper()
	f.change(ctx, func(ds *appsv1.DaemonSet) { hold(ds, image) })
}

// setFree rolls out a new version that becomes Ready by itself.
func (f *fixture) setFree(ctx context.Context, image string) {
	f.t.Helper()
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers[0].Image = image
		delete(ds.Spec.Template.Labels, harness.BehaviorLabel)
	})
}

func hold(ds *appsv1.DaemonSet, image string) {
	ds.Spec.Template.Spec.Containers[0].Image = image
	ds.Spec.Template.Labels[harness.BehaviorLabel] = "never-ready"
}

// admit makes n pods of a held version Ready as they start.
func (f *fixture) admit(ctx context.Context, image string, n int) {
	f.t.Helper()
	f.admitWhere(ctx, image, n, func(string) bool { return true })
}

// admitOn makes the pods of a held version Ready on some nodes.
func (f *fixture) admitOn(ctx context.Context, image string, nodes ...string) {
	f.t.Helper()
	f.admitWhere(ctx, image, len(nodes), func(node string) bool { return slices.Contains(nodes, node) })
}

func (f *fixture) admitWhere(ctx context.Context, image string, n int, where func(node string) bool) {
	f.t.Helper()
	f.eventually(ctx, func() error {
		pods, err := f.running(ctx, image)
		if err != nil {
			return err
		}
		for i := range pods {
			uid := pods[i].UID
			if n == 0 || f.admitted[uid] || isReady(&pods[i]) || !where(pods[i].Spec.NodeName) {
				continue
			}
			if err := f.markReady(ctx, &pods[i]); err != nil {
				return err
			}
			f.admitted[uid] = true
			n--
		}
		if n > 0 {
			return fmt.Errorf("%d more pods of %s should start with %s", n, f.name, image)
		}
		return nil
	})
}

// keepAdmitted makes admitted pods Ready again. If a node's lease expires on a busy
// machine, Kubernetes sets all its pods to not Ready, and nothing else makes held pods
// Ready again.
func (f *fixture) keepAdmitted(ctx context.Context) error {
	pods, err := f.pods(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		if !f.admitted[pods[i].UID] || pods[i].DeletionTimestamp != nil || isReady(&pods[i]) {
			continue
		}
		var node corev1.Node
		if err := f.stage.Client.Get(ctx, client.ObjectKey{Name: pods[i].Spec.NodeName}, &node); err != nil {
			return err
		}
		if ready, _ := daemonset.NodeReady(&node); !ready {
			continue // offline on purpose
		}
		if err := f.markReady(ctx, &pods[i]); err != nil {
			return err
		}
	}
	return nil
}

// halfWay rolls out a held version until it is Ready on some nodes, and started but not
// Ready on as many as the budget allows.
func (f *fixture) halfWay(ctx context.Context, image string, updated, inFlight int) {
	f.t.Helper()
	f.setHeld(ctx, image)
	f.admit(ctx, image, updated)
	f.isAt(ctx, image, updated, inFlight)
}

// isAt waits until the given numbers of nodes are updated and in flight, each with a
// pod that runs the image.
func (f *fixture) isAt(ctx context.Context, image string, updated, inFlight int) {
	f.t.Helper()
	f.reaches(ctx, fmt.Sprintf("at %d updated and %d in flight", updated, inFlight), func(st *topsv1.DaemonRolloutStatus) bool {
		if err := f.keepAdmitted(ctx); err != nil {
			f.t.Logf("keeping pods Ready: %v", err) // retried
		}
		return int(st.Updated) == updated && len(st.InFlight) == inFlight
	})
	f.eventually(ctx, func() error {
		pods, err := f.running(ctx, image)
		if err == nil && len(pods) != updated+inFlight {
			err = fmt.Errorf("%d pods of %s run %s, want %d", len(pods), f.name, image, updated+inFlight)
		}
		return err
	})
}

// running returns the pods that run an image and are not being deleted.
func (f *fixture) running(ctx context.Context, image string) ([]corev1.Pod, error) {
	pods, err := f.pods(ctx)
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || pod.Spec.Containers[0].Image != image
	}), err
}

// nodesRunning returns the nodes whose pods run an image.
func (f *fixture) nodesRunning(ctx context.Context, image string) []string {
	f.t.Helper()
	pods, err := f.running(ctx, image)
	if err != nil {
		f.t.Fatal(err)
	}
	nodes := make([]string, len(pods))
	for i := range pods {
		nodes[i] = pods[i].Spec.NodeName
	}
	return nodes
}

// on waits for a pod on a node that is not being deleted, and returns it.
func (f *fixture) on(ctx context.Context, node string) *corev1.Pod {
	f.t.Helper()
	var found *corev1.Pod
	f.eventually(ctx, func() error {
		pods, err := f.pods(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName == node && pod.DeletionTimestamp == nil })
		if i < 0 {
			return fmt.Errorf("no pod of %s is on %s", f.name, node)
		}
		found = &pods[i]
		return nil
	})
	return found
}

// markReady writes the status that a kubelet writes when a pod becomes Ready.
func (f *fixture) markReady(ctx context.Context, pod *corev1.Pod) error {
	return f.markReadySince(ctx, pod, metav1.Now())
}

// readyForAnHour sets the Ready transition of all pods to an hour ago.
func (f *fixture) readyForAnHour(ctx context.Context) {
	f.t.Helper()
	pods, err := f.pods(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range pods {
		if err := f.markReadySince(ctx, &pods[i], metav1.NewTime(time.Now().Add(-time.Hour))); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) markReadySince(ctx context.Context, pod *corev1.Pod, since metav1.Time) error {
	before := pod.DeepCopy()
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == corev1.PodReady || c.Type == corev1.ContainersReady {
			c.Status, c.Reason, c.Message, c.LastTransitionTime = corev1.ConditionTrue, "", "", since
		}
	}
	return f.stage.Client.Status().Patch(ctx, pod, client.StrategicMergeFrom(before))
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// podUIDs returns the UIDs of pods.
func podUIDs(pods []corev1.Pod) map[types.UID]bool {
	uids := map[types.UID]bool{}
	for i := range pods {
		uids[pods[i].UID] = true
	}
	return uids
}

// uidsRunning returns the UIDs of the pods that run an image.
func (f *fixture) uidsRunning(ctx context.Context, image string) map[types.UID]bool {
	f.t.Helper()
	pods, err := f.running(ctx, image)
	if err != nil {
		f.t.Fatal(err)
	}
	return podUIDs(pods)
}

// deletedExactly fails unless the pods deleted since the last Reset are these.
func deletedExactly(t *testing.T, o *harness.Observer, want map[types.UID]bool) {
	t.Helper()
	deleted := o.Deleted()
	for uid, node := range deleted {
		if !want[uid] {
			t.Errorf("pod %s on %s was deleted, want it kept", uid, node)
		}
	}
	for uid := range want {
		if _, ok := deleted[uid]; !ok {
			t.Errorf("pod %s was not deleted, want it replaced", uid)
		}
	}
}

// atMost fails if more nodes were down at once than allowed.
func atMost(t *testing.T, o *harness.Observer, allowed int) {
	t.Helper()
	if most := o.Most(); most > allowed {
		t.Errorf("%d nodes were down at once, at most %d are allowed", most, allowed)
	}
}
