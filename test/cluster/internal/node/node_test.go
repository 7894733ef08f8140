package node

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNames(t *testing.T) {
	for i, want := range map[int]string{1: "node-0001", 20: "node-0020", 1000: "node-1000"} {
		if got := Name(i); got != want {
			t.Errorf("got name %s of node %d, want %s", got, i, want)
		}
	}
}

func TestZonesTakeTurns(t *testing.T) {
	var got []string
	for i := 1; i <= 4; i++ {
		got = append(got, Zone(i, 3))
	}
	if want := []string{"zone-a", "zone-b", "zone-c", "zone-a"}; !slices.Equal(got, want) {
		t.Errorf("got zones %v, want %v", got, want)
	}
	if got := Zone(1, 0); got != "" {
		t.Errorf("got zone %q in a cluster without zones", got)
	}
	if got := Zone(MaxZones, MaxZones); got != "zone-z" {
		t.Errorf("got last zone %q, want zone-z", got)
	}
}

func TestValidate(t *testing.T) {
	for name, test := range map[string]struct {
		spec Spec
		want string
	}{
		"no nodes are fine":       {Spec{}, ""},
		"the most is fine":        {Spec{Count: MaxNodes, Zones: MaxZones}, ""},
		"less than none":          {Spec{Count: -1}, "--nodes must be from 0 to 5000, not -1"},
		"more nodes than allowed": {Spec{Count: MaxNodes + 1}, "--nodes must be"},
		"a negative zone count":   {Spec{Zones: -1}, "--zones must be from 0 to 26, not -1"},
		"more zones than letters": {Spec{Zones: MaxZones + 1}, "--zones must be"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := test.spec.Validate(); err != nil {
				got = err.Error()
			}
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("got error %q, want %q", got, test.want)
			}
		})
	}
}

func TestAddressesDiffer(t *testing.T) {
	seen := map[string]bool{}
	for i := 1; i <= MaxNodes; i++ {
		a := address(i)
		if seen[a] || !netip.MustParsePrefix("172.16.0.0/12").Contains(netip.MustParseAddr(a)) {
			t.Fatalf("node %d has the address %s, which is taken or out of range", i, a)
		}
		seen[a] = true
	}
}

func TestReadyNeedsConditionAndNoTaint(t *testing.T) {
	n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	if !Ready(n) || notReady(n) {
		t.Error("a Ready node is not reported as Ready")
	}
	n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady}}
	if Ready(n) {
		t.Error("a node with a not-ready taint is reported as Ready")
	}
	n = &corev1.Node{}
	if Ready(n) || !notReady(n) {
		t.Error("a node without conditions is reported as Ready")
	}
}

func TestUnknownNames(t *testing.T) {
	nodes := []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "node-0001"}}, {ObjectMeta: metav1.ObjectMeta{Name: "node-0002"}}}
	if got := unknownNames([]string{"node-0002", "x", "y"}, nodes); !slices.Equal(got, []string{"x", "y"}) {
		t.Errorf("got %v, want x and y", got)
	}
	if got := describe(nodes); got != "node-0001 to node-0002" {
		t.Errorf("got %q", got)
	}
}
