package rollout

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

func TestNodesAreDividedAsTheFleetIs(t *testing.T) {
	policy := Policy{Waves: []Wave{
		{Name: "canary", Size: ptr.To(intstr.FromString("10%"))},
		{Name: "east", Selector: labels.SelectorFromSet(labels.Set{"zone": "east"})},
		{Name: "two", Size: ptr.To(intstr.FromInt32(2))},
	}}
	in, of, want := fleetOf(40, 4, oldHash), map[string]map[string]string{}, map[string]string{}
	in.Policy = policy
	for i := range in.Nodes {
		in.Nodes[i].Name = fmt.Sprintf("%c-%02d", 'a'+i%7, i)
		in.Nodes[i].Labels = map[string]string{"zone": []string{"east", "west"}[i%2]}
		of[in.Nodes[i].Name] = in.Nodes[i].Labels
	}
	f := NewFleet(&in)
	f.Plan(in)
	for _, n := range f.nodes.byName {
		want[n.Name] = policy.waveName(n.wave)
	}
	got := policy.Divide(of)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("waves (-want +got):\n%s", diff)
	}
	count := map[string]int{}
	for _, wave := range got {
		count[wave]++
	}
	if count["canary"] != 4 || count["two"] != 2 || count["east"] == 0 || count["east"]+count[RestWave] != 34 {
		t.Errorf("waves have %v nodes", count)
	}
}
