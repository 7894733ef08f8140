package observed

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestInputOfHasTheOpenRequests(t *testing.T) {
	driver, exporter, stranger := fixture.DaemonSet("driver"), fixture.DaemonSet("exporter"), fixture.DaemonSet("stranger")
	pod, other := fixture.PodOn(driver, "a", fixture.OldHash), fixture.PodOn(exporter, "a", fixture.OldHash)
	recreated := fixture.DaemonSet("driver")
	recreated.UID = "uid-earlier"
	later := fixture.Request("2", driver, fixture.PodOn(driver, "later", fixture.NewHash))
	later.RequestTime = fixture.Ago(0)
	upgrade := func(requests []topsv1.UpgradeRequest, tasks ...topsv1.UpgradeTask) []*topsv1.NodeUpgrade {
		u := fixture.NodeUpgrade("a", requests...)
		u.Status.Tasks = tasks
		return []*topsv1.NodeUpgrade{u}
	}
	type open struct {
		pod      types.UID
		revision string
		at       time.Time
		runs     bool
	}
	asked := open{pod: "uid-driver-a", at: fixture.Epoch.Add(-time.Minute)}
	running := open{pod: asked.pod, at: asked.at, runs: true}
	forRevision := []topsv1.UpgradeRequest{fixture.Request("1", driver, pod)}
	forRevision[0].Revision = "earlier"
	one := []topsv1.UpgradeRequest{fixture.Request("1", driver, pod)}
	tests := []struct {
		name     string
		upgrades []*topsv1.NodeUpgrade
		want     []open // of driver, of exporter
	}{
		{"nobody asked", nil, []open{{}, {}}},
		{"a request is for one member", upgrade(one), []open{asked, {}}},
		{"a request for each member", upgrade(append(one, fixture.Request("2", exporter, other))),
			[]open{asked, {pod: "uid-exporter-a", at: asked.at}}},
		{"a request that waits is open", upgrade(one, fixture.TaskIn("1", topsv1.TaskWaiting)), []open{asked, {}}},
		{"a request that runs is open, and says so", upgrade(one, fixture.TaskIn("1", topsv1.TaskRunning)), []open{running, {}}},
		{"a request says for which revision it is", upgrade(forRevision), []open{{pod: asked.pod, at: asked.at, revision: "earlier"}, {}}},
		{"a request that is done is not", upgrade(one, fixture.TaskIn("1", topsv1.TaskDone)), []open{{}, {}}},
		{"a request that failed is not", upgrade(one, fixture.TaskIn("1", topsv1.TaskFailed)), []open{{}, {}}},
		{"the task of another request answers nothing", upgrade(one, fixture.TaskIn("0", topsv1.TaskDone)), []open{asked, {}}},
		{"of two open requests the later holds", upgrade(append(one, later)), []open{{pod: "uid-driver-later", at: fixture.Epoch}, {}}},
		{"a later request that is answered leaves the earlier open", upgrade(append(one, later), fixture.TaskIn("2", topsv1.TaskFailed)), []open{asked, {}}},
		{"a request of another node is not of this one", []*topsv1.NodeUpgrade{fixture.NodeUpgrade("b", one...)}, []open{{}, {}}},
		{"a request for an earlier DaemonSet of the name is not for this one", upgrade([]topsv1.UpgradeRequest{fixture.Request("1", recreated, pod)}), []open{{}, {}}},
		{"a request for another group is not for this one", upgrade([]topsv1.UpgradeRequest{fixture.Request("1", stranger, pod)}), []open{{}, {}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			members := []memberAndPods{memberWith(driver, pod), memberWith(exporter, other)}
			o := seen{members: members, nodes: []*corev1.Node{fixture.Node("a")}, upgrades: tt.upgrades}.observe()
			var got []open
			for _, p := range o.fleet.Node("a").Pods {
				is := open{runs: p.RequestRuns}
				if p.Request != nil {
					is.pod, is.revision, is.at = p.Request.Pod.UID, p.Request.Revision, p.Request.RequestTime.Time
				}
				got = append(got, is)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(open{})); diff != "" {
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
	if open := openRequests(u, fixture.Epoch)["uid-driver"]; open == nil || !open.RequestTime.Time.Equal(fixture.Epoch) {
		t.Errorf("open request %+v, want one of now", open)
	}
	if last := lastRequest(u, fixture.Epoch); !last.Equal(fixture.Epoch) {
		t.Errorf("last request at %s, want now", last)
	}
}
