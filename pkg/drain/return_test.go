package drain

import (
	"context"
	"fmt"
	"testing"
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

// returning is an API server whose scheduler binds the successor of each evicted pod to the same node, once the card is free.
type returning struct {
	client.Client
	now *time.Time
	// evictions by controller.
	evictions map[types.UID]int
}

func (r *returning) Evict(ctx context.Context, request *policyv1.Eviction) error {
	var p corev1.Pod
	if err := r.Get(ctx, client.ObjectKeyFromObject(request), &p); err != nil || len(request.DeleteOptions.DryRun) > 0 {
		return err
	}
	controller := p.OwnerReferences[0].UID
	r.evictions[controller]++
	next := p.DeepCopy()
	next.ResourceVersion, next.CreationTimestamp = "", metav1.NewTime(*r.now)
	next.Name = fmt.Sprintf("%s-%d", controller, r.evictions[controller])
	next.UID = types.UID(next.Name)
	if err := r.Delete(ctx, &p); err != nil {
		return err
	}
	return r.Create(ctx, next)
}

// The only free card of a full cluster is that of the pod just evicted: one that tolerates the cordon gets it again.
func TestAPodThatComesBackIsEvictedOnce(t *testing.T) {
	now := start
	web, db := pod("web", labeled("app", "web")), pod("db")
	db.OwnerReferences[0].UID = "other"
	for _, p := range []*corev1.Pod{&web, &db} {
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	server := &returning{now: &now, evictions: map[types.UID]int{}, Client: fake.NewClientBuilder().WithObjects(&web, &db,
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: corev1.NodeSpec{Unschedulable: true},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()}
	d := Drainer{Live: server, Evictor: server, Metrics: NewMetrics(prometheus.NewRegistry())}
	var r eviction.Result
	for range 10 {
		var err error
		if r, err = d.Pass(t.Context(), "n1", defaultPolicy(t, nil), r.Attempts, eviction.StartAt(start), now); err != nil {
			t.Fatal(err)
		}
		now = now.Add(eviction.RetryInterval)
	}
	for _, controller := range []types.UID{"owner", "other"} {
		if n := server.evictions[controller]; n != 1 {
			t.Errorf("%d evictions of the pods of %s, want 1: %s", n, controller, r.Message())
		}
	}
	if !r.Stuck() {
		t.Errorf("nothing says that somebody has to act: %s", r.Message())
	}
}
