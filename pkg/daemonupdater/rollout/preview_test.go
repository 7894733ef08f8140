package rollout

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// startsOf returns the starts of an outlook, and why the other nodes are left.
func startsOf(o Forecast) (starts []string, left map[string]Reason) {
	for _, s := range o.Starts {
		starts = append(starts, fmt.Sprint(s.After, " ", s.Wave, s.Nodes))
	}
	left = map[string]Reason{}
	for _, v := range o.Left {
		left[v.Node] = v.Reason
	}
	return starts, left
}

// pinned is an input with node a kept at the old revision of the first member, from another one.
func pinned(in Input, from string) Input {
	in.Ledger.Pins = []Pin{{Node: "a", Member: in.Members[0].Key, Revision: oldHash, From: from, Reason: ReasonUndone}}
	return in
}

func TestPreview(t *testing.T) {
	a, b, c := nodeOf("a", oldHash), nodeOf("b", oldHash), nodeOf("c", oldHash)
	usual := inputOf(1, a, b)
	usual.Ledger.Usual = time.Minute
	waves := inputOf(3, a, b, c).withPolicy(Policy{Waves: []Wave{
		{Name: "first", Size: ptr.To(intstr.FromInt32(1)), Soak: time.Hour}, {Name: "rest", Size: ptr.To(intstr.FromString("100%"))}}})
	manual := inputOf(3, a, b).withPolicy(Policy{Waves: []Wave{
		{Name: "first", Size: ptr.To(intstr.FromInt32(1))}, {Name: "rest", Size: ptr.To(intstr.FromString("100%")), Manual: true}}})
	ota := inputOf(3, a, asking(nodeOf("b", oldHash)))
	ota.Settings.Strategy = daemonset.OTA
	both := inputOf(1, nodeOf("a", oldHash, oldHash))
	both.Members = append(both.Members, Member{Key: "kube-system/b", Target: newHash})
	ends := heavyNode("a")
	ends.Operation = &Operation{ID: "op-a", Ours: true, Prepared: true, Aborted: true}
	tests := []struct {
		name string
		in   Input
		want []string
		left map[string]Reason
		took time.Duration
	}{
		{"nothing to do", inputOf(1, nodeOf("a", newHash)), nil, nil, 0},
		{"one after the other", usual, []string{"0s [a]", "1m0s [b]"}, nil, 2 * time.Minute},
		{"offline nodes are left", inputOf(2, a, offline(b), c), []string{"0s [a c]"}, map[string]Reason{"b": ReasonNodeOffline}, 0},
		{"operations are prepared and carried out", heavyInput(1, heavyNode("a"), heavyNode("b")), []string{"0s [a]", "1s [b]"}, nil, 0},
		{"an aborted operation ends before its node starts", heavyInput(1, ends, heavyNode("b")), []string{"0s [a]", "1s [b]"}, nil, 0},
		{"a wave soaks before the next", waves, []string{"0s first[a]", "1h0m1s rest[b c]"}, nil, 0},
		{"a wave that needs an approval is the end", manual, []string{"0s first[a]"}, map[string]Reason{"b": ReasonAwaitingApproval}, 0},
		{"a node that went back stays there", pinned(inputOf(1, nodeOf("a", oldHash), b), newHash), []string{"0s [b]"}, map[string]Reason{"a": ReasonPinned}, 0},
		{"a node that went back from another target does not", pinned(inputOf(1, nodeOf("a", oldHash), b), "bad"), []string{"0s [a]", "1s [b]"}, nil, 0},
		{"a node that went back gets what else is new", pinned(both, newHash), []string{"0s [a]"}, map[string]Reason{"a": ReasonPinned}, 0},
		{"under OTA only who asks", ota, []string{"0s [b]"}, map[string]Reason{"a": ReasonAwaitingRequest}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			KeepPins(&tt.in)
			out := Preview(tt.in)
			starts, left := startsOf(out)
			if diff := cmp.Diff(tt.want, starts); diff != "" {
				t.Errorf("starts (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.left, left, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			if out.Took != tt.took {
				t.Errorf("it takes %s, want %s", out.Took, tt.took)
			}
		})
	}
}

func TestAPreviewChangesNothing(t *testing.T) {
	in := heavyInput(1, heavyNode("a"), heavyNode("b"))
	before := heavyInput(1, heavyNode("a"), heavyNode("b"))
	Preview(in)
	if diff := cmp.Diff(before, in, cmpopts.IgnoreUnexported(Node{})); diff != "" {
		t.Errorf("the input changed (-before +after):\n%s", diff)
	}
}
