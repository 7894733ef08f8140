package heartbeat

import (
	"context"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// leases answers with the Leases of nodes, by when they were renewed, and notes who was asked for.
type leases struct {
	client.Reader
	renewed map[string]time.Time
	asked   []string
}

func (l *leases) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	l.asked = append(l.asked, key.String())
	at, ok := l.renewed[key.Name]
	if !ok {
		return apierrors.NewNotFound(coordinationv1.Resource("leases"), key.Name)
	}
	object.(*coordinationv1.Lease).Spec.RenewTime = &metav1.MicroTime{Time: at}
	return nil
}

// fleetOf returns a fleet of nodes whose new pods have been available for ten seconds.
func fleetOf(names ...string) *pass.Fleet {
	in := &rollout.Input{Now: epoch, Members: []rollout.Member{{Key: "kube-system/a", Target: "new"}}, Deadlines: rollout.DefaultDeadlines}
	for _, name := range names {
		in.Nodes = append(in.Nodes, rollout.Node{Name: name, UID: "uid", Ready: true, ReadySince: epoch.Add(-time.Hour), Pods: []rollout.Pod{{
			UID: "pod", Name: name, Revision: "new", Available: true, AvailableSince: epoch.Add(-10 * time.Second), AvailableWritten: epoch.Add(-10 * time.Second)}}})
	}
	return &pass.Fleet{Fleet: rollout.NewFleet(in)}
}

// A node leaves probation with the first renewal since its pod is available. Leases are read only
// while other nodes wait, of nodes on probation, and once a second.
func TestANodeLeavesProbationWhenItsLeaseIsRenewed(t *testing.T) {
	l := &leases{renewed: map[string]time.Time{"lives": epoch.Add(-time.Second), "silent": epoch.Add(-11 * time.Second)}}
	f := fleetOf("lives", "no-lease", "silent")
	Refresh(t.Context(), l, f, epoch)
	if on := f.OnProbation(); len(on) != 3 || len(l.asked) > 0 {
		t.Fatalf("nobody waits: on probation %v, asked for %v", on, l.asked)
	}
	f.AwaitsHeartbeats = true
	Refresh(t.Context(), l, f, epoch)
	slices.Sort(l.asked)
	if want := []string{corev1.NamespaceNodeLease + "/lives", corev1.NamespaceNodeLease + "/no-lease", corev1.NamespaceNodeLease + "/silent"}; !slices.Equal(l.asked, want) {
		t.Errorf("asked for %v, want %v", l.asked, want)
	}
	if on := f.OnProbation(); !slices.Equal(on, []string{"no-lease", "silent"}) {
		t.Errorf("on probation: %v", on)
	}
	if got := f.Node("lives").Renewed; !got.Equal(epoch.Add(-time.Second)) {
		t.Errorf("the Lease of lives was renewed at %s", got)
	}
	l.asked = nil
	l.renewed["silent"] = epoch
	Refresh(t.Context(), l, f, epoch.Add(rollout.HeartbeatPoll-time.Millisecond))
	if len(l.asked) > 0 {
		t.Errorf("within a second it asks again for %v", l.asked)
	}
	Refresh(t.Context(), l, f, epoch.Add(rollout.HeartbeatPoll))
	if on := f.OnProbation(); !slices.Equal(on, []string{"no-lease"}) || len(l.asked) != 2 {
		t.Errorf("on probation %v, asked for %v", on, l.asked)
	}
}
