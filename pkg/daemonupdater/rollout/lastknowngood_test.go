package rollout

import (
	"testing"
	"time"
)

// A revision is good once a node runs it, which nobody knows of one that is offline.
func TestARevisionThatOnlyNodesOutOfReachRunIsNotGood(t *testing.T) {
	away := offline(withPod(nodeOf("a", newHash), func(pod *Pod) { pod.Created = epoch.Add(-time.Hour) }))
	away.ReadyWritten = epoch.Add(-time.Minute)
	for want, n := range map[bool]Node{false: away, true: nodeOf("a", newHash)} {
		d := Plan(inputOf(1, n))
		if got := d.Proven(); got != want {
			t.Errorf("Ready %t: good %t", n.Ready, got)
		}
	}
}
