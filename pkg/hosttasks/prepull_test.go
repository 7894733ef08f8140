package hosttasks

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hosttasks/hostapi"
)

// wanting returns a NodeUpgrade that asks for images outside any operation.
func wanting(id string, attempt int32, images ...string) *topsv1.NodeUpgrade {
	n := idle()
	n.Spec.Prepulls = []topsv1.Prepull{{ID: id, Attempt: attempt, Revision: "r2", Images: images, PullSecrets: []string{"pull"}, Time: metav1.NewTime(noon),
		DaemonSet: topsv1.NamespacedRef{Namespace: "monitoring", Name: "exporter", UID: "ds"}}}
	return n
}

// resultOf returns the last reported result of a prepull, empty if there is none.
func resultOf(c *fakeCluster, id string) (r topsv1.HostTaskResult) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if found := c.nodeUpgrade.Status.Host.Result(id, "node-a_pod_prepull"); found != nil {
		r = *found
	}
	return r
}

func TestImagesArePulledBeforeALightChange(t *testing.T) {
	host := newHost(t)
	b := newBench(t, &fakeCluster{nodeUpgrade: wanting("p1", 1, "registry.example.com/exporter:2")}, host.root)
	ends := func(id string, attempt int32) topsv1.HostTaskResult {
		t.Helper()
		until(t, "the result is reported", func() bool {
			if _, err := b.Pass(t.Context()); err != nil {
				t.Fatal(err)
			}
			r := resultOf(b.cluster, id)
			return r.State.Final() && r.Attempt == attempt
		})
		return resultOf(b.cluster, id)
	}
	if r := ends("p1", 1); r.State != topsv1.HostTaskDone || !host.has("registry.example.com/exporter:2") {
		t.Fatalf("result %+v", r)
	}
	if next, err := b.Pass(t.Context()); err != nil || next < hostapi.ReportPeriod-attentivePeriod {
		t.Errorf("looks again after %s: %v", next, err)
	}
	host.write("registry/down", "")
	b.cluster.set(func() { b.cluster.nodeUpgrade.Spec = wanting("p2", 1, "registry.example.com/exporter:3").Spec })
	if r := ends("p2", 1); r.State != topsv1.HostTaskDone || r.Reason != topsv1.ReasonLeftToKubelet || !strings.Contains(r.Message, "cannot read pull secret monitoring/pull") {
		t.Errorf("an image that only the kubelet may pull: %+v", r)
	}
	b.cluster.set(func() {
		b.cluster.nodeUpgrade.Spec = wanting("p3", 1, "registry.example.com/exporter:3").Spec
		b.cluster.nodeUpgrade.Spec.Prepulls[0].PullSecrets = nil
	})
	if r := ends("p3", 1); r.State != topsv1.HostTaskFailed || r.Reason != topsv1.ReasonPullFailed || !strings.Contains(r.Message, "the registry is down") {
		t.Errorf("from a registry that is down: %+v", r)
	}
	host.remove("registry/down")
	b.cluster.set(func() { b.cluster.nodeUpgrade.Spec.Prepulls[0].Attempt = 2 })
	if r := ends("p3", 2); r.State != topsv1.HostTaskDone || !host.has("registry.example.com/exporter:3") {
		t.Errorf("the second attempt: %+v", r)
	}
}

func TestAPrepullThatIsNotWantedAnyMoreIsEnded(t *testing.T) {
	host := newHost(t)
	host.write("registry/hold", "")
	b := newBench(t, &fakeCluster{nodeUpgrade: wanting("p1", 1, "registry.example.com/exporter:2")}, host.root)
	b.run(t)
	until(t, "the pull has begun", func() bool { return resultOf(b.cluster, "p1").State == topsv1.HostTaskRunning })
	var next *topsv1.NodeUpgrade
	b.cluster.set(func() {
		b.cluster.nodeUpgrade.Spec.Prepulls = nil
		next = b.cluster.nodeUpgrade.DeepCopy()
	})
	b.Seen(next)
	until(t, "the pull has ended", func() bool {
		r := b.Pulled("p1")
		return r != nil && r.State == topsv1.HostTaskFailed && r.Reason == topsv1.ReasonWithdrawn
	})
}

// A private image without a pull secret in the template: its pods get the secret of their ServiceAccount, or the
// kubelet has credentials of its own. The agent cannot know that the image is bad.
func TestAPrivateImageWithoutPullSecretIsLeftToTheKubelet(t *testing.T) {
	host := newHost(t)
	host.write("registry/password", "only the kubelet has it")
	u := wanting("p1", 1, "registry.example.com/exporter:2")
	u.Spec.Prepulls[0].PullSecrets = nil
	b := newBench(t, &fakeCluster{nodeUpgrade: u}, host.root)
	until(t, "the result is reported", func() bool {
		if _, err := b.Pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		return resultOf(b.cluster, "p1").State.Final()
	})
	if r := resultOf(b.cluster, "p1"); r.State != topsv1.HostTaskDone || r.Reason != topsv1.ReasonLeftToKubelet {
		t.Errorf("%s %s: %s", r.State, r.Reason, r.Message)
	}
}

// The prepulls of a node stay in its spec for good. An agent whose journal is new, on a node that was installed
// again, does not pull what was wanted months ago.
func TestAPrepullOfLongAgoIsNotBegunByANewAgent(t *testing.T) {
	for name, tt := range map[string]struct {
		age, ahead time.Duration
		begun      int
	}{
		"of now":                                {0, 0, 1},
		"of long ago":                           {180 * 24 * time.Hour, 0, 0},
		"of now, on a node that is ahead":       {0, 48 * time.Hour, 1},
		"of long ago, on a node that is behind": {48 * time.Hour, -47 * time.Hour, 0},
	} {
		u := wanting("p1", 1, "registry.example.com/exporter:2")
		u.Spec.Prepulls[0].Time = metav1.NewTime(noon.Add(-tt.age - tt.ahead))
		b := newBench(t, &fakeCluster{nodeUpgrade: u}, newHost(t).root)
		b.options.Ahead = func(time.Time) time.Duration { return tt.ahead }
		if _, tasks, err := b.read(t.Context()); err != nil || len(tasks) != tt.begun {
			t.Errorf("%s: begins %+v, %v", name, tasks, err)
		}
	}
}
