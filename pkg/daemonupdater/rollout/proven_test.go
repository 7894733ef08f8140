package rollout

import "testing"

// A revision is good once a node runs it, which nobody knows of one that is offline.
func TestARevisionThatOnlyNodesOutOfReachRunIsNotGood(t *testing.T) {
	for want, n := range map[bool]Node{false: offline(nodeOf("a", newHash)), true: nodeOf("a", newHash)} {
		d := Plan(inputOf(1, n))
		if got := d.Proven(); got != want {
			t.Errorf("node %+v: good %t", n, got)
		}
	}
}
