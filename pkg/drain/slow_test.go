package drain

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/topsops/gcu-operator/pkg/drain/eviction"
)

// evictor is an API server that takes its time, and accepts evictions if it has an answer.
type evictor struct {
	takes    time.Duration
	requests int
}

func (e *evictor) Evict(ctx context.Context, _ *policyv1.Eviction) error {
	e.requests++
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(e.takes):
		return nil
	}
}

func TestAPassEndsWhenNothingAnswers(t *testing.T) {
	const pods = 20
	for _, tc := range []struct {
		name     string
		takes    time.Duration
		requests int
		failed   int
		attempts int
	}{
		{"an API server that does not answer is asked a few times", time.Hour, 3, 3, 3},
		{"one that is slow is asked about all", 10 * time.Second, 2 * pods, 0, pods},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects := []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{Unschedulable: true},
					Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}}
				for i := range pods {
					p := pod(fmt.Sprintf("web-%d", i))
					p.UID = types.UID(p.Name)
					objects = append(objects, &p)
				}
				live := fake.NewClientBuilder().WithObjects(objects...).WithIndex(&corev1.Pod{}, "spec.nodeName",
					func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
				server := &evictor{takes: tc.takes}
				d := Drainer{Live: live, Evictor: server, Metrics: NewMetrics(prometheus.NewRegistry())}
				r, err := d.Pass(t.Context(), "n1", defaultPolicy(t, nil), nil, eviction.StartAt(start), start)
				if err != nil {
					t.Fatal(err)
				}
				if failed := len(r.Of(eviction.Failed)); failed != tc.failed || server.requests != tc.requests || len(r.Pods) != pods || len(r.Attempts) != tc.attempts {
					t.Errorf("%d requests, %d of %d pods failed, %d attempts, want %+v", server.requests, failed, len(r.Pods), len(r.Attempts), tc)
				}
			})
		})
	}
}
