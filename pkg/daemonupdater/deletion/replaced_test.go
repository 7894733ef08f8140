package deletion

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// world has a group of a DaemonSet kube-system/x, of which nodes were last started at a time.
func world(name string, lastStart time.Time) *observed.State {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "x"}}
	return &observed.State{Group: observed.Group{Kind: "DaemonSet", Name: name}, Members: []observed.Member{{DaemonSet: ds}},
		Rollout: &topsv1.DaemonRollout{Status: topsv1.DaemonRolloutStatus{LastStartTime: &metav1.Time{Time: lastStart}}}}
}

func TestWhatWasReplacedIsRememberedForTheGivenTime(t *testing.T) {
	var all AllAttempts
	driver, other := world("driver", time.Time{}), world("other", time.Time{})
	at := func(after time.Duration) time.Time { return fixture.Epoch.Add(after) }
	all.Replaced.Begin(driver.Group, at(0), time.Minute, time.Minute)
	ends := func(node string, after time.Duration, members ...string) {
		all.Replaced.Begin(driver.Group, at(after), time.Minute, time.Minute)
		all.Replaced.Note(driver.Group, []rollout.Slot{{Node: node, UID: types.UID(node), Members: members}}, at(after))
	}
	shown := func(of *observed.State, node string) map[string]time.Time {
		n := rollout.Node{Name: node, UID: types.UID(node)}
		all.Show(of, &corev1.Node{}, &n)
		return n.Replaced
	}
	expect := func(node string, want map[string]time.Time) {
		t.Helper()
		if diff := cmp.Diff(want, shown(driver, node)); diff != "" {
			t.Errorf("replaced on %s (-want +got):\n%s", node, diff)
		}
	}
	ends("a", 0, "x")
	first := shown(driver, "a")
	all.Replaced.Note(driver.Group, nil, at(time.Hour))
	ends("b", time.Minute, "x")
	ends("a", time.Minute, "y", "z")
	expect("a", map[string]time.Time{"x": at(0), "y": at(time.Minute), "z": at(time.Minute)})
	if len(first) != 1 {
		t.Errorf("what a decision has read has become %v", first)
	}
	all.Replaced.Begin(other.Group, at(0), time.Second, time.Second)
	for i, node := range []string{"o", "p", "q"} {
		all.Replaced.Note(other.Group, []rollout.Slot{{UID: types.UID(node), Members: []string{"x"}}}, at(time.Duration(61+2*i)*time.Second))
	}
	expect("b", map[string]time.Time{"x": at(time.Minute)})
	ends("c", 61*time.Second, "x")
	expect("b", map[string]time.Time{"x": at(time.Minute)})
	ends("d", 3*time.Minute, "x")
	expect("b", nil)
	expect("c", map[string]time.Time{"x": at(61 * time.Second)})
	ends("e", 2*time.Minute, "x") // the clock was set back
	expect("c", nil)
	expect("e", map[string]time.Time{"x": at(2 * time.Minute)})
	if got := shown(other, "e"); got != nil {
		t.Errorf("another group has replaced %v", got)
	}
	all.Replaced.Begin(driver.Group, at(3*time.Minute), time.Hour, time.Hour) // the deadline of the policy was raised
	for i, node := range []types.UID{"f", "g"} {
		all.Replaced.Note(driver.Group, []rollout.Slot{{UID: node, Members: []string{"x"}}}, at(time.Duration(30+5*i)*time.Minute))
	}
	expect("e", map[string]time.Time{"x": at(2 * time.Minute)})
	all.Forget(driver.Group)
	all.Replaced.Begin(driver.Group, at(0), time.Minute, time.Minute)
	expect("e", nil)
}

func TestWhatWasReplacedBeforeTheProcessBeganIsDerivedFromThePods(t *testing.T) {
	at := func(minutes int) time.Time { return fixture.Epoch.Add(time.Duration(minutes) * time.Minute) }
	begun := map[string]time.Time{"kube-system/x": at(100).Add(2 * time.Second)} // a state that it saw first did not begin then
	for name, tt := range map[string]struct {
		created, lastStart, node, set time.Time
		want                          map[string]time.Time
	}{
		"ten minutes before":         {at(90), at(90), at(0), at(0), begun},
		"earlier":                    {at(89), at(89), at(0), at(0), nil},
		"at the begin":               {at(100), at(99), at(0), at(0), begun},
		"after it":                   {at(101), at(100), at(0), at(0), nil},
		"long after the last start":  {at(95), at(84), at(0), at(0), nil},
		"before a later node's slot": {at(95), at(99), at(0), at(0), begun},
		"on a node that joined":      {at(95), at(95), at(86), at(0), nil},
		"of a new DaemonSet":         {at(95), at(95), at(0), at(86), nil},
		"of older ones":              {at(95), at(95), at(85), at(85), begun},
	} {
		t.Run(name, func(t *testing.T) {
			var all AllAttempts
			s := world("driver", tt.lastStart)
			s.Members[0].DaemonSet.CreationTimestamp = metav1.Time{Time: tt.set}
			all.Replaced.Begin(s.Group, at(100), time.Hour, 10*time.Minute)
			n := rollout.Node{Name: "a", UID: "a", Pods: []rollout.Pod{{Created: tt.created}}}
			all.Show(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: tt.node}}}, &n)
			if diff := cmp.Diff(tt.want, n.Replaced); diff != "" {
				t.Errorf("replaced (-want +got):\n%s", diff)
			}
			all.Replaced.Note(s.Group, []rollout.Slot{{UID: "a", Members: []string{"kube-system/x"}}}, at(105))
			if all.Show(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: tt.node}}}, &n); !n.Replaced["kube-system/x"].Equal(at(105)) {
				t.Errorf("once its slot is over: %v", n.Replaced)
			}
			s.Rollout.Status.LastStartTime = nil
			n.UID = "b"
			if all.Show(s, &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Time{Time: tt.node}}}, &n); n.Replaced != nil {
				t.Errorf("though no node was ever started: %v", n.Replaced)
			}
		})
	}
}

// A slot may last longer than the progress deadline: then its last pod is created long after its node was started.
func TestAPodOfALongSlotMayHaveReplacedOne(t *testing.T) {
	at := func(minutes int) time.Time { return time.Date(2026, 3, 1, 12, minutes, 0, 0, time.UTC) }
	for _, finished := range []int{50, 20} {
		var all AllAttempts
		s := world("driver", at(20))
		s.Rollout.Status.LastProgressTime = &metav1.Time{Time: at(finished)}
		all.Replaced.Begin(s.Group, at(52), time.Hour, 10*time.Minute)
		n := rollout.Node{Name: "a", UID: "a", Pods: []rollout.Pod{{Created: at(45)}}}
		if all.Show(s, &corev1.Node{}, &n); (len(n.Replaced) > 0) != (finished == 50) {
			t.Errorf("replaced %v, a node was finished at minute %d", n.Replaced, finished)
		}
	}
}
