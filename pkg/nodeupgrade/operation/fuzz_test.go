package operation

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// FuzzHostReport decides with the report of an agent, and an override, that may be anything. It checks
// that results of other operations and tasks change nothing, that a report alone never ends the operation as
// done or opens the device, and that a decision depends on its input alone, and leaves it as it is.
func FuzzHostReport(f *testing.F) {
	tasks := []string{"driver_prepull", "node_evict", "driver_verify", "node_restart-runtime"}
	f.Add(uint8(0), []byte(`{"results":[{"operation":"op","task":"n1_driver_prepull","attempt":1,"state":"Done"}]}`), "")
	f.Add(uint8(1), []byte(`{"results":[{"operation":"other","task":"n1_driver_prepull","attempt":1,"state":"Failed","message":"x"}]}`), "skip:n1_node_evict")
	f.Add(uint8(2), []byte(`{"driverVersion":"v2","devices":-8,"runtime":{"engine":"","default":"enflame"},"deviceHolders":[{"pid":-1,"command":"x","device":"/dev/gcu0"}]}`), "retry:n1_driver_verify")
	f.Add(uint8(3), []byte(`{"time":"9999-01-01T00:00:00Z","bootID":"b","results":[{"operation":"op","task":"n1_node_restart-runtime","attempt":2147483647,"state":"?"}]}`), "retry:")
	f.Fuzz(func(t *testing.T, at uint8, data []byte, value string) {
		report := &topsv1.HostReport{}
		if json.Unmarshal(data, report) != nil {
			return
		}
		facts := reach(t, tasks[int(at)%len(tasks)], everything...)
		facts.Host, facts.Override = report, value
		machine, stored := newMachine(t), Record{Operation: facts.Operation.DeepCopy(), History: slices.Clone(facts.History)}
		first := machine.Next(facts)
		if diff := cmp.Diff(stored, facts.Record); diff != "" {
			t.Errorf("the decision changed the stored record (-stored +now):\n%s", diff)
		}
		if diff := cmp.Diff(first, machine.Next(facts)); diff != "" {
			t.Fatalf("decided again (-first +second):\n%s", diff)
		}
		if op := first.Record.Operation; op.Phase == topsv1.OperationDone || len(op.Message) > 4<<10 {
			t.Errorf("one report leads to %s", summaryOf(first))
		}
		names := jobNames(facts.Wanted)
		less := facts
		less.Host = report.DeepCopy()
		less.Host.Results = slices.DeleteFunc(less.Host.Results, func(r topsv1.HostTaskResult) bool {
			return r.Operation != facts.Wanted.ID || !slices.Contains(names, r.Task)
		})
		if diff := cmp.Diff(first, machine.Next(less)); diff != "" {
			t.Errorf("results of others count (-with +without):\n%s", diff)
		}
	})
}

func jobNames(wanted *topsv1.NodeOperation) (names []string) {
	for _, stage := range wanted.Job {
		for _, name := range stage {
			names = append(names, string(name))
		}
	}
	return names
}
