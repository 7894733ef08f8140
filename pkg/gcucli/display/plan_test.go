package display

import (
	"fmt"
	"strings"
	"testing"

	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// tenThousand is a plan of many nodes: equal but for a wave, three offline nodes, and one
// that is blocked.
func tenThousand() *preview.Preview {
	p := &preview.Preview{GcuResource: "fleet", Components: []preview.Component{{Name: "driver", Change: preview.Upgrade, Nodes: 10_000}}}
	p.MaxUnavailable, p.Total, p.Seconds = 100, 10_003, 7200
	for i := range 100 {
		var batch upgradeplan.Batch
		for j := range 100 {
			name := fmt.Sprintf("node-%05d", i*100+j)
			n := preview.Node{Name: name, AfterSeconds: int64(i * 72), Disruption: upgradeplan.EvictAccelerator, Replaces: []string{"driver"}, Evicts: []string{"default/" + name}}
			if i == 0 {
				n.Wave = "canary"
			}
			if i == 50 && j == 0 {
				n.BlockedBy = "PodDisruptionBudget default/x allows no eviction now"
			}
			p.Nodes = append(p.Nodes, n)
			batch = append(batch, upgradeplan.Job{{{Host: name, Target: "node", Action: "cordon"}}, {{Host: name, Target: "driver", Action: "replace"}}})
		}
		p.Plan = append(p.Plan, batch)
	}
	for i := range 3 {
		p.Left = append(p.Left, preview.LeftNode{Name: fmt.Sprint("off-", i), Reason: "NodeOffline", Message: "offline"})
	}
	return p
}

func TestAPlanOfManyNodesCanBeRead(t *testing.T) {
	text := PlanText(tenThousand(), nil, Style{})
	want := `GcuResource fleet: 10000 of 10003 nodes upgraded, at most 100 unavailable at once; about 120m

COMPONENT   NODES   WHAT HAPPENS
driver      10000   upgraded node by node

batches: 100, nodes: 10000, at most at once: 100, tasks: 20000

BATCH   NODES                                                     ABOUT                           STAGE   TASKS
1       node-00000 … node-00099 (100 nodes)                       wave canary, EvictAccelerator   1       cordon node
                                                                                                  2       replace driver
2-100   node-00100 … node-09999 (9900 nodes, 100 at a time)       EvictAccelerator                1       cordon node
                                                                                                  2       replace driver

10000 pods evicted from 10000 nodes:
  NODE         EVICTED PODS
`
	if !strings.HasPrefix(strings.Join(strings.Fields(text), " "), strings.Join(strings.Fields(want), " ")) {
		t.Errorf("the plan begins otherwise than\n%s\n%s", want, text)
	}
	for _, words := range []string{"and from 9990 nodes more: -o wide", "1 node would be blocked while they are emptied:\n  node-05000: PodDisruptionBudget", "3 nodes not upgraded:", "off-0, off-1, off-2"} {
		if !strings.Contains(text, words) {
			t.Errorf("it does not say %q:\n%s", words, text)
		}
	}
	if lines := strings.Count(text, "\n"); lines > 40 {
		t.Errorf("it has %d lines", lines)
	}
	if lines := strings.Count(PlanText(tenThousand(), nil, Style{Wide: true}), "\n"); lines < 20_000 {
		t.Errorf("-o wide has %d lines, want one for each node and its pods", lines)
	}
}

func TestTheRowsOfNodesThatAreNotUpgradedAddUp(t *testing.T) {
	p := tenThousand()
	for i := range 13 {
		p.Left = append(p.Left, preview.LeftNode{Name: fmt.Sprint("held-", i), Reason: "NodeHeld", Message: fmt.Sprint("for ", i%12)})
	}
	text := PlanText(p, nil, Style{})
	for _, words := range []string{"16 nodes not upgraded:", "\n  2       NodeHeld      held-0, held-12       for 0 ", "\n  1       NodeHeld      held-9                for 9 ",
		"\n  2       NodeHeld      and others: -o wide\n"} {
		if !strings.Contains(text, words) {
			t.Errorf("it does not say %q:\n%s", words, text)
		}
	}
}
