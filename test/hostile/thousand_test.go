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
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/need"
)

// inFleet is the size of the fleet: make long has a thousand, which take a minute.
var inFleet = map[bool]int{false: 100, true: 1000}[need.Long()]

const (
	// started is how many nodes of the fleet ask for their upgrade at once.
	started = 20
	// fleetLabel is on the nodes of the fleet.
	fleetLabel = "example.com/thousand"
	// perSecond bounds the passes that an agent costs in a second once its budget of 20 writes in 10 s is spent. One
	// wake, which is due each second, costs two: of the group of the DaemonSet that the agent names, and of its node
	// for the invented ones. Each writes its answers, which wakes both again, and some repeat a pass
	// on a stale cache: about five. Without the budget there are more than forty.
	perSecond = 10
)

// TestOneHostileTokenCostsFewPasses: one node of the fleet writes ten times a second: reports that are never the
// same, and requests for the pod of another node and for three invented DaemonSets. Meanwhile others ask for
// upgrades, and all of them start. The times are logged, and not judged: they depend on the machine. What is
// judged is how many passes the agent costs, which bounds how long the others wait.
func TestOneHostileTokenCostsFewPasses(t *testing.T) {
	s := cluster(t)
	admin := s.Client(t, apiserver.Admin)
	ds := requested(t, admin, "thousand")
	addFleet(t, admin, ds)
	startUpdater(t, s)
	next := 0
	round := func() time.Duration {
		first := next
		next += started
		return timeToStart(t, s, ds, first)
	}
	round() // fills the caches
	liar := newLiar(t, s, ds, fleetNode(inFleet-1))
	var alone, along time.Duration
	rounds := map[bool]int{false: 1, true: 3}[need.Long()]
	for range rounds {
		alone += round()
		stop := liar.writeWithoutEnd()
		along += round()
		stop()
	}
	t.Logf("%d nodes of %d start after %s, and after %s while one writes ten times a second", started, inFleet, alone/time.Duration(rounds), along/time.Duration(rounds))
	quiet := newLiar(t, s, ds, fleetNode(inFleet-2))
	quiet.noReport = true // which would wake the groups that other tests left too
	checkCost(t, quiet)
}

// checkCost counts the passes that an agent costs which wrote nothing yet.
func checkCost(t *testing.T, l *liar) {
	t.Helper()
	first := time.Now()
	for range 40 {
		l.write(t.Context()) // spends its budget
	}
	begin, from, before := time.Now(), l.writes, passesOf("controller_runtime_reconcile_total")
	stop := l.writeWithoutEnd()
	time.Sleep(4 * time.Second)
	stop()
	lasted, cost := time.Since(begin), passesOf("controller_runtime_reconcile_total")-before
	bound := perSecond * (int(lasted/time.Second) + 2 + 20*int(time.Since(first)/(10*time.Second))) // a slow machine: the agent has a new budget
	t.Logf("%d writes of one agent in %s cost %d passes, of at most %d", l.writes-from, lasted, cost, bound)
	if cost > bound {
		t.Errorf("%d writes of one agent in %s cost %d passes, want at most %d", l.writes-from, lasted, cost, bound)
	}
}

// passesOf returns the sum of a counter of the controller of rollouts, of all managers of this process.
func passesOf(name string) (sum int) {
	families, _ := metrics.Registry.Gather()
	for _, family := range families {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				if family.GetName() == name && l.GetValue() == "daemonupdater" {
					sum += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return sum
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

// addFleet creates the nodes with their NodeUpgrades and outdated pods, and deletes them at the end of the test.
func addFleet(t *testing.T, admin client.Client, ds *appsv1.DaemonSet) {
	t.Helper()
	t.Cleanup(func() {
		ctx, mine := context.Background(), client.MatchingLabels{fleetLabel: "true"}
		check(t, admin.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(ds.Namespace), client.MatchingLabels(ds.Spec.Selector.MatchLabels), client.GracePeriodSeconds(0)))
		check(t, admin.DeleteAllOf(ctx, &topsv1.NodeUpgrade{}, mine))
		check(t, admin.DeleteAllOf(ctx, &corev1.Node{}, mine))
	})
	inParallel(inFleet, func(i int) {
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

// liar is the hostile agent.
type liar struct {
	t        *testing.T
	agent    client.Client
	node     string
	ds       *appsv1.DaemonSet
	ofOthers *corev1.Pod
	writes   int
	noReport bool
}

func newLiar(t *testing.T, s *apiserver.Server, ds *appsv1.DaemonSet, node string) *liar {
	t.Helper()
	l := &liar{t: t, node: node, ds: ds, ofOthers: &corev1.Pod{}}
	l.agent = agentOf(t, s, l.node)
	check(t, s.Client(t, apiserver.Admin).Get(t.Context(), client.ObjectKey{Namespace: ds.Namespace, Name: ds.Name + "-" + fleetNode(inFleet-3)}, l.ofOthers))
	return l
}

// write replaces all requests and the report.
func (l *liar) write(context.Context) {
	l.writes++
	lies := requestsFor(3) // with many the API server is slower than ten times a second
	for i := range lies {
		lies[i].(object)["id"] = fmt.Sprintf("lie-%d-%d", l.writes, i)
	}
	ofAnother := fixture.Request(fmt.Sprint("lie-", l.writes), l.ds, l.ofOthers)
	ofAnother.RequestTime = metav1.NewTime(time.Now().Truncate(time.Second))
	status := object{"requests": append(lies, ofAnother), "host": object{"time": someTime, "driverVersion": fmt.Sprint(l.writes)}}
	if l.noReport {
		delete(status, "host")
	}
	if err := write(l.t, l.agent, l.node, status); err != nil {
		l.t.Errorf("writing as the hostile agent: %v", err)
	}
}

// writeWithoutEnd writes ten times a second until stop is called.
func (l *liar) writeWithoutEnd() (stop func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	ended, from := make(chan struct{}), l.writes
	go func() {
		defer close(ended)
		wait.NonSlidingUntilWithContext(ctx, l.write, 100*time.Millisecond)
	}()
	return func() {
		cancel()
		<-ended
		if l.writes == from {
			l.t.Error("the hostile agent wrote nothing")
		}
	}
}
