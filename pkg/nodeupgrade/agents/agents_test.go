package agents

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// fleet is a cluster whose metrics are read at a given time.
type fleet struct {
	t        *testing.T
	client   client.Client
	registry *prometheus.Registry
	elected  chan struct{}
	now      time.Time
}

func newFleet(t *testing.T) *fleet {
	scheme := runtime.NewScheme()
	check(t, clientgoscheme.AddToScheme(scheme))
	check(t, topsv1.AddToScheme(scheme))
	f := &fleet{t: t, client: fake.NewClientBuilder().WithScheme(scheme).Build(), registry: prometheus.NewPedanticRegistry(),
		elected: make(chan struct{}), now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}
	Register(f.registry, f.client, f.elected, func() time.Time { return f.now })
	return f
}

// add adds a node whose agent has reported, by a clock of its own.
func (f *fleet) add(name, agent, driver string, ready corev1.ConditionStatus) {
	f.t.Helper()
	check(f.t, f.client.Create(f.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}))
	check(f.t, f.client.Create(f.t.Context(), &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: topsv1.NodeUpgradeStatus{
		Agent: &topsv1.AgentStatus{Version: agent}, Host: &topsv1.HostReport{DriverVersion: driver, Time: metav1.NewTime(f.now.Add(-time.Hour))}}}))
}

// report renews the report of a node.
func (f *fleet) report(name string) {
	f.t.Helper()
	var upgrade topsv1.NodeUpgrade
	check(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Name: name}, &upgrade))
	upgrade.Status.Host.Time = metav1.NewTime(upgrade.Status.Host.Time.Add(time.Minute))
	check(f.t, f.client.Update(f.t.Context(), &upgrade))
}

func (f *fleet) shows(metric, want string) {
	f.t.Helper()
	if err := testutil.GatherAndCompare(f.registry, strings.NewReader(want), metric); err != nil {
		f.t.Error(err)
	}
}

func (f *fleet) showsSilent(nodes int) {
	f.t.Helper()
	f.shows("gcu_node_agent_silent_nodes", fmt.Sprintf(`# HELP gcu_node_agent_silent_nodes Ready nodes whose node agent has reported before, but not for over three minutes.
# TYPE gcu_node_agent_silent_nodes gauge
gcu_node_agent_silent_nodes %d
`, nodes))
}

// An agent is missed most where an operation waits for it.
func TestASilentAgentIsCountedWhereAnOperationWaits(t *testing.T) {
	f := newFleet(t)
	close(f.elected)
	operates := func(name string, phase topsv1.OperationPhase) {
		t.Helper()
		f.add(name, "v1", "2.0", corev1.ConditionTrue)
		var upgrade topsv1.NodeUpgrade
		check(t, f.client.Get(t.Context(), client.ObjectKey{Name: name}, &upgrade))
		upgrade.Status.Operation = &topsv1.OperationStatus{ID: "op", Phase: phase}
		check(t, f.client.Update(t.Context(), &upgrade))
	}
	f.add("idle", "v1", "2.0", corev1.ConditionTrue)
	operates("running", topsv1.OperationRunning)
	operates("done", topsv1.OperationDone)
	shows := func(nodes int) {
		t.Helper()
		f.shows("gcu_node_agent_silent_in_operation_nodes", fmt.Sprintf(`# HELP gcu_node_agent_silent_in_operation_nodes Ready nodes with an operation that has not ended whose node agent has not reported for three minutes.
# TYPE gcu_node_agent_silent_in_operation_nodes gauge
gcu_node_agent_silent_in_operation_nodes %d
`, nodes))
	}
	shows(0)
	f.now = f.now.Add(Silence)
	shows(1)
	f.report("running")
	shows(0)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestVersionsAreCounted(t *testing.T) {
	f := newFleet(t)
	f.add("a", "v1", "2.0", corev1.ConditionTrue)
	f.add("b", "v2", "", corev1.ConditionFalse)
	f.add("c", "v2", "2.0", corev1.ConditionTrue)
	check(t, f.client.Create(t.Context(), &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "without-agent"}}))
	if n, err := testutil.GatherAndCount(f.registry); n != 0 || err != nil {
		t.Errorf("%d series before this manager was elected (%v)", n, err)
	}
	close(f.elected)
	f.shows("gcu_node_agent_nodes", `# HELP gcu_node_agent_nodes Nodes by the version of their node agent; the rarest versions count as other.
# TYPE gcu_node_agent_nodes gauge
gcu_node_agent_nodes{version="v1"} 1
gcu_node_agent_nodes{version="v2"} 2
`)
	f.shows("gcu_node_driver_nodes", `# HELP gcu_node_driver_nodes Nodes by the version of the loaded driver, empty for none; the rarest versions count as other.
# TYPE gcu_node_driver_nodes gauge
gcu_node_driver_nodes{version=""} 1
gcu_node_driver_nodes{version="2.0"} 2
`)
}

// Every agent reports a version of its own.
func TestTheSeriesAreBounded(t *testing.T) {
	f := newFleet(t)
	close(f.elected)
	for i := range 3 * maxVersions {
		f.add(fmt.Sprintf("lies-%d", i), fmt.Sprint("v", i), "2.0", corev1.ConditionTrue)
	}
	f.add("honest-1", "v99", "2.0", corev1.ConditionTrue)
	f.add("honest-2", "v99", "2.0", corev1.ConditionTrue)
	families, err := f.registry.Gather()
	check(t, err)
	for _, family := range families {
		if family.GetName() != "gcu_node_agent_nodes" {
			continue
		}
		counts := map[string]float64{}
		for _, m := range family.Metric {
			counts[m.Label[0].GetValue()] = m.Gauge.GetValue()
		}
		if len(counts) != maxVersions+1 || counts["v99"] != 2 || counts[otherVersions] != 2*maxVersions+1 {
			t.Errorf("%d series: %v", len(counts), counts)
		}
	}
}

func TestAnAgentIsSilentWhenItsReportDoesNotChange(t *testing.T) {
	f := newFleet(t)
	close(f.elected)
	f.add("a", "v1", "2.0", corev1.ConditionTrue)
	f.add("b", "v1", "2.0", corev1.ConditionTrue)
	f.add("offline", "v1", "2.0", corev1.ConditionFalse)
	f.showsSilent(0) // although their clocks are an hour slow
	f.now = f.now.Add(Silence - time.Second)
	f.report("a")
	f.showsSilent(0)
	f.now = f.now.Add(time.Second)
	f.showsSilent(1)
	f.report("b")
	f.showsSilent(0)
	// A node that is back has the time to report.
	var node corev1.Node
	check(t, f.client.Get(t.Context(), client.ObjectKey{Name: "offline"}, &node))
	node.Status.Conditions[0].Status = corev1.ConditionTrue
	check(t, f.client.Status().Update(t.Context(), &node))
	f.showsSilent(0)
	f.now = f.now.Add(Silence)
	f.showsSilent(3)
}
