//go:build soak

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

const (
	soakNodes  = 200
	soakBudget = 20
	// soakAway is how many nodes are offline at most, and how many have left.
	soakAway = 10
	// soakPace is the mean time between two disturbances, soakTick how often the test looks.
	soakPace, soakTick = 3 * time.Second, 200 * time.Millisecond
	// longestCut of a link costs a leader its lease; with shortCut it keeps it, and its watches go on.
	longestCut, shortCut = 40 * time.Second, 4 * time.Second
	// shortestSoak has two samples of each quarter: the API server counts its objects once a minute.
	shortestSoak = 6 * time.Minute
	// soakEnd is how long the last rollout may take when the churn has ended.
	soakEnd = 10 * time.Minute
)

// soak is rollouts back to back on a fleet with churn, by two managers that are killed and cut off.
//
//	  0 … 1/8  either manager is killed, the leader too, and loses its link for long
//	1/8 … 1    the leader of then is not killed, and its cuts are short: a leak needs a process that lives
//	2/8 … 4/8  is compared with 6/8 … 1 (soakflat_test.go)
//	      1    churn ends, and the leader is killed in the middle of the last rollout
//
// SOAK is its length, SEED draws the disturbances. Their sequence depends on nothing else; which of
// the managers leads does on the run.
type soak struct {
	*fixture
	rng      *rand.Rand
	like     corev1.Node
	managers []*soakManager
	// survivor is the manager that is not killed, nil at first.
	survivor *soakManager
	// ended is how often it ended by itself.
	ended    int
	observer *harness.Observer
	// online and offline are the nodes, created is how many there ever were.
	online, offline []string
	created         int
	// version of the DaemonSet is rolled out since begun; target is its revision.
	version, complete int
	begun             time.Time
	target            string
	kills, cuts, most int
	samples           []sample
}

// soakManager is a manager with its link to the API server, which is cut until mendAt unless that is zero.
type soakManager struct {
	*kubelet
	link   *harness.Link
	logs   string
	mendAt time.Time
}

func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(cmp.Or(os.Getenv("SOAK"), "90m"))
	if err != nil || length < shortestSoak {
		t.Fatalf("SOAK=%s is not a duration of at least %s: %v", os.Getenv("SOAK"), shortestSoak, err)
	}
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), strconv.FormatInt(time.Now().Unix(), 10)), 10, 64)
	if err != nil {
		t.Fatalf("SEED: %v", err)
	}
	t.Setenv("GOGC", "") // test/suite sets it, and the manager's memory is to be that of a cluster
	ctx := testContext(t, length+2*storyTime)
	s := newSoak(ctx, t, seed)
	s.say("SOAK=%s SEED=%d", length, seed)
	s.endure(ctx, length)
	s.end(ctx)
	s.judge(length)
}

// say prints a line at once: go test -v and gotestsum show a log only at the end of a test.
func (*soak) say(format string, args ...any) { fmt.Printf("    soak: "+format+"\n", args...) }

// newSoak starts the cluster, the managers and the DaemonSet.
func newSoak(ctx context.Context, t *testing.T, seed uint64) *soak {
	t.Helper()
	plane := &controlPlane{nodes: soakNodes, prepare: func(c *controlPlane, ctx context.Context) error { return c.cluster.Install(ctx) }}
	t.Cleanup(func() {
		if err := plane.stop(t.Failed()); err != nil {
			t.Error(err)
		}
	})
	plane.start(t)
	st := &stage{Cluster: plane.cluster, plane: plane, id: "1"}
	s := &soak{rng: rand.New(rand.NewPCG(seed, 0)), created: soakNodes, version: 1}
	if err := st.Client.Get(ctx, client.ObjectKey{Name: nodeName(0)}, &s.like); err != nil {
		t.Fatal(err)
	}
	for i := range soakNodes {
		s.online = append(s.online, nodeName(i))
	}
	for i := range 2 {
		name := fmt.Sprintf("manager-%d", i+1)
		link, kubeconfig, err := st.ManagerLink(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(link.Close)
		logs := filepath.Join(plane.parent, name)
		s.managers = append(s.managers, &soakManager{link: link, logs: logs, kubelet: st.keepManager(ctx, t, "--kubeconfig", kubeconfig, "--log-dir", logs)})
	}
	// Nodes fail because they go offline or leave, and that must not halt the rollouts.
	st.policy(ctx, t, "soak", topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(soakBudget)), LostDeadlineSeconds: ptr.To[int32](120),
		Failure: &topsv1.FailurePolicy{Threshold: ptr.To(intstr.FromString("100%"))}})
	s.fixture = newDaemonSet(ctx, t, st, "soak", st.underPolicy("soak"), func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.NodeSelector = nil })
	s.observer = s.observe(ctx)
	return s
}

// endure disturbs rollouts for a time, and looks at what they leave behind.
func (s *soak) endure(ctx context.Context, length time.Duration) {
	s.t.Helper()
	start := time.Now()
	everySample := min(time.Minute, length/36)
	tick := time.NewTicker(soakTick)
	defer tick.Stop()
	var disturbed, sampled, said time.Duration
	for now := time.Duration(0); now < length; now = time.Since(start) {
		if s.survivor == nil && now >= length/8 {
			s.survivor = s.leader(ctx)
			s.ended = s.survivor.started()
		}
		for disturbed <= now { // one for each, however late the test is
			disturbed += soakPace/2 + time.Duration(s.rng.Int64N(int64(soakPace)))
			s.disturb(ctx)
		}
		s.mend(time.Now())
		if s.isComplete(ctx) || time.Since(s.begun) >= time.Minute {
			s.rollOut(ctx)
		}
		if now >= sampled {
			sampled += everySample
			s.sample(ctx, now)
		}
		if now >= said {
			said += time.Minute
			s.report(now)
		}
		select {
		case <-ctx.Done():
			s.t.Fatal(ctx.Err())
		case <-tick.C:
		}
	}
}

// rollOut starts the next version, whether or not the last is complete.
func (s *soak) rollOut(ctx context.Context) {
	s.t.Helper()
	s.version++
	s.setImage(ctx, s.image())
	s.target, s.begun = s.newestRevision(ctx), time.Now()
}

func (s *soak) image() string { return fmt.Sprintf("app:%d", s.version) }

// isComplete counts the rollout when every reachable node is at its version.
func (s *soak) isComplete(ctx context.Context) bool {
	s.t.Helper()
	r, err := s.rollout(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	done := len(r.Status.Targets) == 1 && r.Status.Targets[0].Hash == s.target && meta.IsStatusConditionTrue(r.Status.Conditions, topsv1.RolloutComplete)
	if done {
		s.complete++
	}
	return done
}

// disturb does one thing to a node or a manager. It always draws three numbers, so that the sequence is
// that of the seed.
func (s *soak) disturb(ctx context.Context) {
	s.t.Helper()
	what, which, span := s.rng.IntN(100), s.rng.IntN(1<<20), s.rng.Float64()
	manager, other := s.managers[which%2], s.managers[(which+1)%2]
	switch {
	case what < 78:
		if err := s.churn(ctx, what, which, span); err != nil {
			s.t.Fatal(err)
		}
	case what < 88:
		if manager == s.survivor {
			manager = other
		}
		manager.now().Kill()
		s.kills++
	default:
		s.cut(manager, span)
	}
}

// churn takes a node offline, brings one back, removes one or adds one, unless too many or none are away.
func (s *soak) churn(ctx context.Context, what, which int, span float64) error {
	here := len(s.online) + len(s.offline)
	switch {
	case what < 30 && len(s.offline) < soakAway:
		node := take(&s.online, which)
		s.offline = append(s.offline, node)
		return s.stage.SetOnline(ctx, node, false)
	case what >= 30 && what < 60 && len(s.offline) > 0:
		node := take(&s.offline, which)
		s.online = append(s.online, node)
		return s.stage.SetOnline(ctx, node, true)
	case what >= 60 && what < 69 && here > soakNodes-soakAway:
		from := &s.online
		if len(s.offline) > 0 && span < 0.3 { // as an autoscaler removes a node that is broken
			from = &s.offline
		}
		node := take(from, which)
		s.observer.SeeNodeLeave(node)
		return s.stage.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	case what >= 69 && here < soakNodes:
		node := newNode(nodeName(s.created), &s.like)
		s.created++
		s.online = append(s.online, node.Name)
		return s.stage.Client.Create(ctx, node)
	}
	return nil
}

// take removes one of a list.
func take(list *[]string, which int) string {
	i := which % len(*list)
	one := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return one
}

func (s *soak) cut(m *soakManager, span float64) {
	if !m.mendAt.IsZero() {
		return
	}
	longest := longestCut
	if m == s.survivor {
		longest = shortCut
	}
	m.link.Cut()
	m.mendAt = time.Now().Add(time.Duration(span * float64(longest)))
	s.cuts++
}

// mend restores the links that were cut for long enough, of every second with new connections.
func (s *soak) mend(now time.Time) {
	for _, m := range s.managers {
		if !m.mendAt.IsZero() && now.After(m.mendAt) {
			m.link.Mend(s.cuts%2 == 0)
			m.mendAt = time.Time{}
		}
	}
}

// leader returns the manager that leads, with its link.
func (s *soak) leader(ctx context.Context) *soakManager {
	s.t.Helper()
	s.mend(time.Now().Add(longestCut))
	var leader *soakManager
	s.eventually(ctx, func() error {
		for _, m := range s.managers {
			if values, err := metricsOf(ctx, m.now().URL+"/metrics"); err == nil && values["leader_election_master_status"] == 1 {
				leader = m
				return nil
			}
		}
		return errors.New("no manager leads")
	})
	return leader
}

// end ends the churn. Every node has the last version then, although the leader is killed once more.
func (s *soak) end(ctx context.Context) {
	s.t.Helper()
	s.ended = s.survivor.started() - s.ended
	s.survivor = s.leader(ctx)
	for _, node := range s.offline {
		if err := s.stage.SetOnline(ctx, node, true); err != nil {
			s.t.Fatal(err)
		}
	}
	s.online, s.offline = append(s.online, s.offline...), nil
	s.rollOut(ctx)
	s.reaches(ctx, "under way", func(st *topsv1.DaemonRolloutStatus) bool {
		return len(st.Targets) == 1 && st.Targets[0].Hash == s.target && st.Updated > 0
	})
	s.survivor.now().Kill()
	begun := time.Now()
	s.within(ctx, soakEnd, func(pods []corev1.Pod) error {
		at := map[string]int{}
		for i := range pods {
			if pods[i].Spec.Containers[0].Image != s.image() || !isReady(&pods[i]) {
				return fmt.Errorf("pod %s on %s runs %s, or is not Ready", pods[i].Name, pods[i].Spec.NodeName, pods[i].Spec.Containers[0].Image)
			}
			at[pods[i].Spec.NodeName]++
		}
		for _, node := range s.online {
			if at[node] != 1 {
				return fmt.Errorf("%d pods on %s, want one", at[node], node)
			}
		}
		return nil
	})
	s.complete++
	s.fixture.complete(ctx, s.image(), len(s.online))
	s.say("%d nodes have %s, %s after the last leader was killed", len(s.online), s.image(), time.Since(begun).Round(time.Second))
	s.withinBudget()
}

// withinBudget fails if more nodes than allowed were down since the last call.
func (s *soak) withinBudget() {
	s.t.Helper()
	most := s.observer.Most()
	s.most = max(s.most, most)
	if most > soakBudget {
		s.t.Errorf("%d nodes were down at once, the budget is %d: %+v", most, soakBudget, s.observer.Outages())
	}
	s.observer.Reset()
}

// panicked returns the first line of a panic in the output of the managers, "" if there is none.
func (s *soak) panicked() (string, error) {
	log, err := os.ReadFile(s.managers[0].now().Log) // of both
	for line := range strings.Lines(string(log)) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			return strings.TrimSpace(line), err
		}
	}
	return "", err
}
