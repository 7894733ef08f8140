package daemonupdater

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/metrics"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/stored"
)

// moment is what an earlier build stored, with the nodes and pods of that time.
type moment struct {
	api    client.WithWatch
	time   time.Time
	groups []observed.Group

	mu     sync.Mutex
	writes []string
}

// momentOf reads a file of test/stored/testdata.
func momentOf(t *testing.T, file string) *moment {
	t.Helper()
	builder, at, err := stored.Cluster(file)
	if err != nil {
		t.Fatal(err)
	}
	m := &moment{time: at}
	m.api = builder.WithIndex(&corev1.Pod{}, controllerUID, indexByController).
		WithIndex(&appsv1.ControllerRevision{}, controllerUID, indexByController).Build()
	var sets appsv1.DaemonSetList
	if err := m.api.List(t.Context(), &sets); err != nil {
		t.Fatal(err)
	}
	for i := range sets.Items {
		if g := observed.GroupOf(&sets.Items[i]); !slices.Contains(m.groups, g) {
			m.groups = append(m.groups, g)
		}
	}
	return m
}

// wrote notes a write.
func (m *moment) wrote(verb string, object client.Object, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes = append(m.writes, fmt.Sprintf("%s %T %s %s", verb, object, object.GetName(), content))
}

// statuses returns the statuses of rollouts and of plans, without what changes with time.
func (m *moment) statuses(t *testing.T) (all []any) {
	t.Helper()
	var rollouts topsv1.DaemonRolloutList
	var plans topsv1.UpgradePlanList
	if err := errors.Join(m.api.List(t.Context(), &rollouts), m.api.List(t.Context(), &plans)); err != nil {
		t.Fatal(err)
	}
	for i := range rollouts.Items {
		status := &rollouts.Items[i].Status
		status.LastDecisionTime, status.ETASeconds = nil, 0
		for k := range status.Conditions {
			status.Conditions[k].LastTransitionTime = metav1.Time{}
		}
		for k := range status.Skipped {
			status.Skipped[k].Since = metav1.Time{} // when the other manager saw it
		}
		if len(status.InFlight) > 0 {
			status.Waiting = nil // for a budget: the moment was between two decisions
		}
		all = append(all, *status)
	}
	for i := range plans.Items {
		plans.Items[i].Status.Time = nil
		all = append(all, plans.Items[i].Status)
	}
	return all
}

// TestAnotherManagerDecidesWhatWasDecided: a manager of today that starts in the middle of an earlier one's rollout
// deletes no pod, and changes no operation. The statuses become what they were, once it knows for how long a node is offline.
func TestAnotherManagerDecidesWhatWasDecided(t *testing.T) {
	for _, tt := range []struct {
		file string
		gate gating.Mode
		// agents is that node agents are at work, without which an operation does not go on.
		agents bool
	}{
		{file: "plan.yaml"},
		{file: "halted.yaml", gate: gating.On},
		{file: "operating.yaml", agents: true},
		{file: "rolled-back.yaml"},
		{file: "ota.yaml"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			m := momentOf(t, tt.file)
			r := &Reconciler{Client: stored.Noting(m.api, m.wrote), Live: m.api, Recorder: events.NewFakeRecorder(100), Namespace: "kube-system",
				Metrics: metrics.New(prometheus.NewRegistry()), Deadlines: rollout.DefaultDeadlines, Book: upgradeplan.DefaultBook(),
				Gate: func() gating.Mode { return tt.gate }, Clock: func() time.Time { return m.time }, groupStates: newGroupStates(nil)}
			before := m.statuses(t)
			waits := []time.Duration{0, time.Second, time.Second}
			if !tt.agents {
				waits = append(waits, daemonset.MaxSkew, time.Second)
			}
			for _, wait := range waits {
				m.time = m.time.Add(wait)
				for _, g := range m.groups {
					if _, err := r.Reconcile(t.Context(), g); err != nil {
						t.Fatal(err)
					}
				}
			}
			if diff := cmp.Diff([]string(nil), m.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, m.statuses(t)); diff != "" {
				t.Errorf("statuses (-stored +now):\n%s", diff)
			}
		})
	}
}
