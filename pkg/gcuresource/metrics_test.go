package gcuresource

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestMetricsOfGcuResources(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := topsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Status: topsv1.GcuResourceStatus{
		StandardConditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse}, {Type: "Degraded", Status: metav1.ConditionTrue}, {Type: "Progressing", Status: metav1.ConditionUnknown}},
		ResourceStatuses:   []topsv1.ResourceStatus{{Name: "driver", Status: topsv1.PhaseRunning}, {Name: "gfd", Status: "deploying"}},
	}}).Build()
	registry, elected := prometheus.NewPedanticRegistry(), make(chan struct{})
	RegisterMetrics(registry, cache, elected)
	if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
		t.Errorf("%d series before this manager was elected (%v)", n, err)
	}
	close(elected)
	want := `
# HELP gcu_resource_component_running 1 when a component of a GcuResource runs on every node where it should, else 0.
# TYPE gcu_resource_component_running gauge
gcu_resource_component_running{component="driver",gcuresource="a"} 1
gcu_resource_component_running{component="gfd",gcuresource="a"} 0
# HELP gcu_resource_condition 1 when a standard condition of a GcuResource is true, 0 when it is false; absent when it is unknown.
# TYPE gcu_resource_condition gauge
gcu_resource_condition{condition="Degraded",gcuresource="a"} 1
gcu_resource_condition{condition="Ready",gcuresource="a"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
