package upgradeplan

import (
	"slices"
	"testing"
)

func TestCapabilityOfATask(t *testing.T) {
	for task, want := range map[string]string{
		"n_driver_prepull":       "prepull",
		"n_exporter_prepull":     "prepull",
		"n_node_restart-runtime": "restart-runtime",
		"n_driver_verify":        "verify-driver",
		"n_runtime_verify":       "verify-runtime",
		"n_allocatable_verify":   "",
		"n_toolkit_verify":       "",
		"n_driver_replace":       "",
		"n_node_cordon":          "",
	} {
		parsed, err := ParseTask(task)
		if err != nil {
			t.Fatal(err)
		}
		if got := parsed.Capability(); got != want {
			t.Errorf("%s needs %q, want %q", task, got, want)
		}
		if want != "" && !slices.Contains(Capabilities(), want) {
			t.Errorf("%s is not reported", want)
		}
	}
	if !slices.IsSorted(Capabilities()) {
		t.Errorf("%v are not sorted", Capabilities())
	}
}
