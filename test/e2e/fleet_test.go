package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
	"github.com/topsops/gcu-operator/test/need"
)

// fleetNodes is the number of nodes of the fleet. They have no GCUs, so that the GcuResources of stories ignore them.
var fleetNodes = map[bool]int{false: 200, true: 1000}[need.Long()]

const (
	askingNow  = 50
	fleetLimit = 10
	// fleetPatience is the timeout of one step of a fleet.
	fleetPatience = 5 * time.Minute
	// foreignCondition is a pod condition of another writer.
	foreignCondition corev1.PodConditionType = "example.com/Seen"
)

// Every pod of a fleet under OTA is marked when there is a new version; only the pods
// of nodes with a request are replaced.
func TestAFleetIsMarkedAndServed(t *testing.T) {
	s, ctx := enterOwn(t, "fleet", fleetNodes, false)
	annotations := ota()
	annotations[topsv1.AnnotationMaxUnavailable] = fmt.Sprint(fleetLimit)
	f := createDaemonSet(ctx, t, s, "fleet", annotations)
	f.within(ctx, fleetPatience, func(pods []corev1.Pod) error { return count(pods, isReady, "Ready") })
	o := f.observe(ctx)
	f.setForeignConditions(ctx)
	before := f.uids(ctx)

	f.setImage(ctx, "app:2")
	target := f.newestRevision(ctx)
	f.within(ctx, fleetPatience, func(pods []corev1.Pod) error { return count(pods, isMarked(target), "marked") })
	f.undisturbed(ctx, before)
	deletedExactly(t, o, nil)

	f.asking(ctx, o)
}

// asking: some nodes make requests at the same time. Only their pods are replaced,
// within the budget.
func (f *fixture) asking(ctx context.Context, o *harness.Observer) {
	f.t.Helper()
	pods, err := f.pods(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	asking := pods[:askingNow] // sorted by their random names: any nodes
	target := f.newestRevision(ctx)
	ds, err := f.get(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	f.parallel(ctx, len(asking), func(i int) error {
		return f.ask(ctx, topsv1.NamespacedRef{Namespace: ds.Namespace, Name: ds.Name, UID: ds.UID}, &asking[i], target)
	})
	f.eventually(ctx, func() error {
		for i := range asking {
			if err := f.answered(ctx, asking[i].Spec.NodeName); err != nil {
				return err
			}
		}
		return nil
	})
	f.undisturbed(ctx, f.uids(ctx))
	deletedExactly(f.t, o, podUIDs(asking))
	atMost(f.t, o, fleetLimit)
	f.within(ctx, fleetPatience, func(pods []corev1.Pod) error {
		marked := slices.DeleteFunc(slices.Clone(pods), func(pod corev1.Pod) bool { return !isMarked(target)(&pod) })
		if len(pods) != fleetNodes || len(marked) != fleetNodes-askingNow {
			return fmt.Errorf("%d of %d pods are marked, want all except the %d with requests", len(marked), len(pods), askingNow)
		}
		return nil
	})
}

// ask makes a request like the agent of a pod's node.
func (f *fixture) ask(ctx context.Context, ds topsv1.NamespacedRef, pod *corev1.Pod, target string) error {
	var node corev1.Node
	if err := f.stage.Client.Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &node); err != nil {
		return err
	}
	upgrade := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: node.Name, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
	}}}
	if err := f.stage.Client.Create(ctx, upgrade); err != nil {
		return err
	}
	upgrade.Status.Requests = []topsv1.UpgradeRequest{{
		ID: string(pod.UID), DaemonSet: ds, Revision: target, RequestTime: metav1.Now(),
		Pod: topsv1.NamespacedRef{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
	}}
	return f.stage.Client.Status().Update(ctx, upgrade)
}

// answered returns nil if the request of a node is done.
func (f *fixture) answered(ctx context.Context, node string) error {
	var upgrade topsv1.NodeUpgrade
	if err := f.stage.Client.Get(ctx, client.ObjectKey{Name: node}, &upgrade); err != nil {
		return err
	}
	tasks := upgrade.Status.Tasks
	if len(tasks) != 1 || tasks[0].State != topsv1.TaskDone || tasks[0].Reason != "Replaced" {
		return fmt.Errorf("tasks of %s are %+v, want one Done because Replaced", node, tasks)
	}
	return nil
}

// setForeignConditions sets the condition of another writer on every pod.
func (f *fixture) setForeignConditions(ctx context.Context) {
	f.t.Helper()
	pods, err := f.pods(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":%q,"status":"True","reason":"Foreign"}]}}`, foreignCondition)
	f.parallel(ctx, len(pods), func(i int) error {
		return f.stage.Client.Status().Patch(ctx, &pods[i], client.RawPatch(types.StrategicMergePatchType, patch))
	})
}

// isMarked reports whether a pod's condition names target as its newer revision, and
// the pod still has the condition of another writer.
func isMarked(target string) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		foreign := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == foreignCondition && c.Status == corev1.ConditionTrue && c.Reason == "Foreign"
		})
		return foreign && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == topsv1.PodNeedUpgrade && c.Status == corev1.ConditionTrue && c.Message == "controllerrevision: "+target
		})
	}
}

// count returns nil if is returns true for all pods of the fleet.
func count(pods []corev1.Pod, is func(*corev1.Pod) bool, what string) error {
	n := 0
	for i := range pods {
		if is(&pods[i]) {
			n++
		}
	}
	if n != fleetNodes || len(pods) != fleetNodes {
		return fmt.Errorf("%d of %d pods are %s, want %d", n, len(pods), what, fleetNodes)
	}
	return nil
}

// within checks all pods every second until check returns nil.
func (f *fixture) within(ctx context.Context, limit time.Duration, check func([]corev1.Pod) error) {
	f.t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(ctx, time.Second, limit, true, func(ctx context.Context) (bool, error) {
		pods, err := f.pods(ctx)
		if err == nil {
			err = check(pods)
		}
		last = err
		return err == nil, nil
	})
	if err != nil {
		f.t.Fatalf("after %s: %v", limit, last)
	}
}

// parallel calls work n times with limited concurrency.
func (f *fixture) parallel(ctx context.Context, n int, work func(i int) error) {
	f.t.Helper()
	errs := make([]error, n)
	workqueue.ParallelizeUntil(ctx, 16, n, func(i int) { errs[i] = work(i) })
	for _, err := range errs {
		if err != nil {
			f.t.Fatal(err)
		}
	}
}
