package preview

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestThePodOfTheOperatorIsNotEvicted(t *testing.T) {
	policy, err := eviction.PolicyOf(&topsv1.DrainPolicy{})
	if err != nil {
		t.Fatal(err)
	}
	named := func(name string) eviction.Pod {
		return eviction.Pod{Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "gcu-system", Name: name, UID: types.UID(name),
			OwnerReferences: fixture.ControlledBy("apps/v1", "ReplicaSet", "gcu-operator-1", "rs")}}}
	}
	r := Rollout{Nodes: []Node{{Name: "a"}}}
	r.Evict(map[string]eviction.Policy{"a": policy.All()}, map[string][]eviction.Pod{"a": {named("active"), named("standby")}}, eviction.Self{UID: "active"}, nil, fixture.Epoch)
	if diff := cmp.Diff([]string{"gcu-system/standby"}, r.Nodes[0].Evicts); diff != "" {
		t.Errorf("evicted (-want +got):\n%s%s", diff, r.Nodes[0].BlockedBy)
	}
}
