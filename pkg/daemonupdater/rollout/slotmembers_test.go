package rollout

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Somebody may delete the NodeUpgrade later, and then only the slot shows what the operation replaced (observed.NewOperation).
func TestTheSlotOfAPreparedOperationNamesTheDriverThoughItsPodIsMissingWhenTheNodeStarts(t *testing.T) {
	driver, toolkit, exporter := "kube-system/driver", "kube-system/toolkit", "kube-system/exporter"
	outdated, updated := nodeOf("a", oldHash, oldHash, newHash), nodeOf("a", newHash, oldHash, newHash)
	for _, test := range []struct {
		name    string
		node    Node
		targets []string
		want    []string
	}{
		{"the pods are there", outdated, []string{driver, toolkit, exporter}, []string{driver, toolkit}},
		{"the driver's is terminating, at the target", terminating(updated), []string{driver, toolkit, exporter}, []string{driver, toolkit}},
		{"the driver's is missing", missing(outdated), []string{driver, toolkit, exporter}, []string{driver, toolkit}},
		{"the driver's died, and is at the target now", updated, []string{driver, toolkit, exporter}, []string{driver, toolkit}},
		{"the driver's is missing, and the operation is not for it", missing(outdated), []string{toolkit}, []string{toolkit}},
	} {
		node := prepared(test.node)
		node.Operation.Targets = map[string]string{}
		for _, member := range test.targets {
			node.Operation.Targets[member] = newHash
		}
		in := inputOf(1, node)
		in.Members = []Member{{Key: driver, Target: newHash, Heavy: true}, {Key: toolkit, Target: newHash, Heavy: true}, {Key: exporter, Target: newHash}}
		slots := Plan(in).Ledger.Slots
		if len(slots) != 1 || slots[0].Operation != node.Operation.ID {
			t.Errorf("%s: slots %+v, want one for the prepared operation", test.name, slots)
			continue
		}
		if diff := cmp.Diff(test.want, slices.Sorted(slices.Values(slots[0].Members))); diff != "" {
			t.Errorf("%s: members of the slot (-want +got):\n%s", test.name, diff)
		}
	}
}

// Somebody may delete the NodeUpgrade while the next operation of a node that is kept cordoned runs. It verifies all drivers and toolkits.
func TestTheSlotOfANodeThatIsKeptCordonedNamesAllThatItsNextOperationVerifies(t *testing.T) {
	driver, toolkit, exporter := "kube-system/driver", "kube-system/toolkit", "kube-system/exporter"
	node := nodeOf("a", newHash, oldHash, newHash)
	node.Pods[1].Request = requestFor(&node.Pods[1], "")
	for _, test := range []struct {
		name     string
		node     Node
		strategy daemonset.Strategy
		kept     bool
		want     []string
	}{
		{"nobody requested the driver", unverified(node), daemonset.OTA, true, []string{driver, toolkit}},
		{"the pod of the driver is missing", missing(node), daemonset.AdvancedRollingUpdate, true, []string{driver, toolkit}},
		{"it is not kept cordoned", missing(node), daemonset.AdvancedRollingUpdate, false, []string{toolkit}},
	} {
		in := inputOf(1, prepared(test.node)).under(test.strategy)
		in.Nodes[0].Operation.Targets = map[string]string{toolkit: newHash}
		if test.kept {
			in.Nodes[0] = withJob(test.node, &Operation{ID: "failed", Ours: true, Granted: true, KeptCordoned: true})
		}
		in.Members = []Member{{Key: driver, Target: newHash, Heavy: true}, {Key: toolkit, Target: newHash, Heavy: true}, {Key: exporter, Target: newHash}}
		slots := Plan(in).Ledger.Slots
		if len(slots) != 1 || slots[0].Operation == "" {
			t.Errorf("%s: slots %+v, want one with an operation", test.name, slots)
			continue
		}
		if diff := cmp.Diff(test.want, slices.Sorted(slices.Values(slots[0].Members))); diff != "" {
			t.Errorf("%s: members of the slot (-want +got):\n%s", test.name, diff)
		}
	}
}
