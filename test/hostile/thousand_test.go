package hostile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
	"github.com/topsops/gcu-operator/test/fixture"
)

const (
	// thousand is the size of the fleet, started how many nodes of it ask for their upgrade at once.
	thousand, started = 1000, 20
	// fleetLabel is on the nodes of the fleet.
	fleetLabel = "example.com/thousand"
)

// TestOneHostileTokenDelaysTheOthersLessThanTwice: of 1000 nodes, one writes ten times a second: reports that are
// never the same, and requests for the pod of another node and for 63 invented DaemonSets. Meanwhile others ask for upgrades, and start.
func TestOneHostileTokenDelaysTheOthersLessThanTwice(t *testing.T) {
	s := cluster(t)
	admin := s.Client(t, apiserver.Admin)
	ds := requested(t, admin, "thousand")
	addThousand(t, admin, ds)
	startUpdater(t, s)
	next := 0
	round := func() time.Duration {
		first := next
		next += started
		return timeToStart(t, s, ds, first)
	}
	round() // fills the caches
	var alone, along time.Duration
	for range 3 {
		alone += round()
		stop := writeWithoutEnd(t, s, ds, fleetNode(thousand-1))
		along += round()
		if writes := stop(); writes < 1 {
			t.Error("the hostile agent wrote nothing")
		}
	}
	t.Logf("%d nodes of %d start after %s, and after %s while one writes ten times a second", started, thousand, alone/3, along/3)
	if along >= 2*alone {
		t.Errorf("%d nodes start after %s, and after %s while one agent writes ten times a second", started, alone/3, along/3)
	}
}

func fleetNode(i int) string { return fmt.Sprintf("thousand-%04d", i) }

// inParallel calls do for each number below n.
func inParallel(n int, do func(i int)) {
	var all sync.WaitGroup
	turns := make(chan struct{}, 32)
	for i := range n {
		turns <- struct{}{}
		all.Go(func() {
			do(i)
			<-turns
		})
	}
	all.Wait()
}

// addThousand creates the nodes with their NodeUpgrades and outdated pods, and deletes them at the end of the test.
func addThousand(t *testing.T, admin client.Client, ds *appsv1.DaemonSet) {
	t.Helper()
	t.Cleanup(func() {
		ctx, mine := context.Background(), client.MatchingLabels{fleetLabel: "true"}
		check(t, admin.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(ds.Namespace), client.MatchingLabels(ds.Spec.Selector.MatchLabels), client.GracePeriodSeconds(0)))
		check(t, admin.DeleteAllOf(ctx, &topsv1.NodeUpgrade{}, mine))
		check(t, admin.DeleteAllOf(ctx, &corev1.Node{}, mine))
	})
	inParallel(thousand, func(i int) {
		name := fleetNode(i)
		node := fixture.Node(name)
		node.UID, node.Labels = "", map[string]string{fleetLabel: "true"}
		if err := admin.Create(t.Context(), node); err != nil {
			t.Error(err)
			return
		}
		upgrade, pod := nodeUpgrade(name, node.UID), fixture.PodOn(ds, name, fixture.OldHash)
		upgrade.Labels, pod.UID, pod.Spec.Containers = node.Labels, "", ds.Spec.Template.Spec.Containers
		if err := errors.Join(admin.Create(t.Context(), upgrade), apiserver.CreateWithStatus(t.Context(), admin, pod)); err != nil {
			t.Error(err)
		}
	})
}

// timeToStart returns how long it takes until the pods of some nodes are deleted that ask for that.
func timeToStart(t *testing.T, s *apiserver.Server, ds *appsv1.DaemonSet, first int) time.Duration {
	t.Helper()
	admin := s.Client(t, apiserver.Admin)
	pods, agents := make([]*corev1.Pod, started), make([]client.Client, started)
	for i := range started {
		name := fleetNode(first + i)
		pods[i], agents[i] = &corev1.Pod{}, agentOf(t, s, name)
		check(t, admin.Get(t.Context(), client.ObjectKey{Namespace: ds.Namespace, Name: ds.Name + "-" + name}, pods[i]))
	}
	begin := time.Now()
	inParallel(started, func(i int) {
		request := fixture.Request(fmt.Sprint("start-", first+i), ds, pods[i])
		request.RequestTime = metav1.NewTime(begin.Truncate(time.Second))
		if err := write(t, agents[i], fleetNode(first+i), object{"requests": []any{request}}); err != nil {
			t.Error(err)
		}
	})
	for _, pod := range pods {
		err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			err := admin.Get(ctx, client.ObjectKeyFromObject(pod), pod)
			return pod.DeletionTimestamp != nil, err
		})
		if err != nil {
			t.Fatalf("pod %s is not deleted: %v", pod.Name, err)
		}
	}
	return time.Since(begin)
}

// writeWithoutEnd writes ten times a second as the agent of a node until stop is called, which returns how often.
func writeWithoutEnd(t *testing.T, s *apiserver.Server, ds *appsv1.DaemonSet, node string) (stop func() int) {
	t.Helper()
	agent := agentOf(t, s, node)
	others := &corev1.Pod{}
	check(t, s.Client(t, apiserver.Admin).Get(t.Context(), client.ObjectKey{Namespace: ds.Namespace, Name: ds.Name + "-" + fleetNode(thousand-2)}, others))
	ctx, cancel := context.WithCancel(t.Context())
	writes, ended := 0, make(chan struct{})
	go func() {
		defer close(ended)
		wait.UntilWithContext(ctx, func(context.Context) {
			writes++
			lies := requestsFor(63)
			for i := range lies {
				lies[i].(object)["id"] = fmt.Sprintf("lie-%d-%d", writes, i)
			}
			ofAnother := fixture.Request(fmt.Sprint("lie-", writes), ds, others)
			ofAnother.RequestTime = metav1.NewTime(time.Now().Truncate(time.Second))
			status := object{"requests": append(lies, ofAnother), "host": object{"time": someTime, "driverVersion": fmt.Sprint(writes)}}
			if err := write(t, agent, node, status); err != nil {
				t.Errorf("writing as the hostile agent: %v", err)
			}
		}, 100*time.Millisecond)
	}()
	time.Sleep(time.Second) // its budget is spent
	return func() int {
		cancel()
		<-ended
		return writes
	}
}
