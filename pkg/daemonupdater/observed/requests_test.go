package observed

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestInputOfHasTheOpenRequests(t *testing.T) {
	driver, exporter, stranger := fixture.DaemonSet("driver"), fixture.DaemonSet("exporter"), fixture.DaemonSet("stranger")
	pod, other := fixture.PodOn(driver, "a", fixture.OldHash), fixture.PodOn(exporter, "a", fixture.OldHash)
	recreated := fixture.DaemonSet("driver")
	recreated.UID = "uid-earlier"
	later := fixture.Request("2", driver, fixture.PodOn(driver, "later", fixture.NewHash))
	later.RequestTime = fixture.Ago(0)
	asked := &rollout.Request{PodUID: "uid-driver-a", Time: fixture.Epoch.Add(-time.Minute)}
	upgrade := func(requests []topsv1.UpgradeRequest, tasks ...topsv1.UpgradeTask) []*topsv1.NodeUpgrade {
		u := fixture.NodeUpgrade("a", requests...)
		u.Status.Tasks = tasks
		return []*topsv1.NodeUpgrade{u}
	}
	running := &rollout.Request{PodUID: asked.PodUID, Time: asked.Time, Running: true}
	forRevision := []topsv1.UpgradeRequest{fixture.Request("1", driver, pod)}
	forRevision[0].Revision = "earlier"
	one := []topsv1.UpgradeRequest{fixture.Request("1", driver, pod)}
	tests := []struct {
		name     string
		upgrades []*topsv1.NodeUpgrade
		want     []*rollout.Request // of driver, of exporter
	}{
		{"nobody asked", nil, []*rollout.Request{nil, nil}},
		{"a request is for one member", upgrade(one), []*rollout.Request{asked, nil}},
		{"a request for each member", upgrade(append(one, fixture.Request("2", exporter, other))),
			[]*rollout.Request{asked, {PodUID: "uid-exporter-a", Time: fixture.Epoch.Add(-time.Minute)}}},
		{"a request that waits is open", upgrade(one, fixture.TaskIn("1", topsv1.TaskWaiting)), []*rollout.Request{asked, nil}},
		{"a request that runs is open, and says so", upgrade(one, fixture.TaskIn("1", topsv1.TaskRunning)), []*rollout.Request{running, nil}},
		{"a request says for which revision it is", upgrade(forRevision), []*rollout.Request{{PodUID: asked.PodUID, Time: asked.Time, Revision: "earlier"}, nil}},
		{"a request that is done is not", upgrade(one, fixture.TaskIn("1", topsv1.TaskDone)), []*rollout.Request{nil, nil}},
		{"a request that failed is not", upgrade(one, fixture.TaskIn("1", topsv1.TaskFailed)), []*rollout.Request{nil, nil}},
		{"the task of another request answers nothing", upgrade(one, fixture.TaskIn("0", topsv1.TaskDone)), []*rollout.Request{asked, nil}},
		{"of two open requests the later holds", upgrade(append(one, later)), []*rollout.Request{{PodUID: "uid-driver-later", Time: fixture.Epoch}, nil}},
		{"a later request that is answered leaves the earlier open", upgrade(append(one, later), fixture.TaskIn("2", topsv1.TaskFailed)), []*rollout.Request{asked, nil}},
		{"a request of another node is not of this one", []*topsv1.NodeUpgrade{fixture.NodeUpgrade("b", one...)}, []*rollout.Request{nil, nil}},
		{"a request for an earlier DaemonSet of the name is not for this one", upgrade([]topsv1.UpgradeRequest{fixture.Request("1", recreated, pod)}), []*rollout.Request{nil, nil}},
		{"a request for another group is not for this one", upgrade([]topsv1.UpgradeRequest{fixture.Request("1", stranger, pod)}), []*rollout.Request{nil, nil}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			members := []memberAndPods{memberWith(driver, pod), memberWith(exporter, other)}
			o := seen{members: members, nodes: []*corev1.Node{fixture.Node("a")}, upgrades: tt.upgrades}.observe()
			pods := o.fleet.Node("a").Pods
			if diff := cmp.Diff(tt.want, []*rollout.Request{pods[0].Request, pods[1].Request}); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARequestThatIsWithdrawnStartsNothing(t *testing.T) {
	withdrawn := fixture.Request("1", fixture.DaemonSet("driver"), fixture.PodOn(fixture.DaemonSet("driver"), "a", fixture.OldHash))
	withdrawn.Withdrawn = true
	if open := openRequests(fixture.NodeUpgrade("a", withdrawn), fixture.Epoch); len(open) != 0 {
		t.Errorf("open requests %v", open)
	}
	again := withdrawn
	again.ID, again.Withdrawn = "1-2", false
	if open := openRequests(fixture.NodeUpgrade("a", withdrawn, again), fixture.Epoch); open[types.UID("uid-driver")] == nil {
		t.Error("who asks again after that is not heard")
	}
}

func TestARequestOfTheFutureIsOneOfNow(t *testing.T) {
	request := fixture.Request("1", fixture.DaemonSet("driver"), fixture.PodOn(fixture.DaemonSet("driver"), "a", fixture.OldHash))
	request.RequestTime = fixture.Ago(-1000 * time.Hour)
	u := fixture.NodeUpgrade("a", request)
	if open := openRequests(u, fixture.Epoch)["uid-driver"]; open == nil || !open.Time.Equal(fixture.Epoch) {
		t.Errorf("open request %+v, want one of now", open)
	}
	if last := lastRequest(u, fixture.Epoch); !last.Equal(fixture.Epoch) {
		t.Errorf("last request at %s, want now", last)
	}
}
