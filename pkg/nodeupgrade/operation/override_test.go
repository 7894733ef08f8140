package operation

import (
	"strings"
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestCheckOverrideReportsWhatIsIgnored(t *testing.T) {
	wanted := &topsv1.NodeOperation{ID: "op",
		Targets: []topsv1.OperationTarget{{Component: "driver", Revision: "new", Previous: "old"}, {Component: "exporter", Revision: "new"}},
		Job:     []topsv1.JobStage{{"n1_node_cordon"}, {"n1_driver_replace"}, {"n1_exporter_replace"}, {"n1_node_soak"}}}
	for value, want := range map[string]string{
		"retry:n1_driver_replace":            "",
		"retry:n1_driver_replace:2026-01-01": "",
		"skip:n1_node_soak":                  "",
		"":                                   "is not of the form",
		"again:n1_driver_replace":            "is not of the form",
		"retry:driver":                       "is not of the form host_target_action",
		"retry:n1_gfd_replace":               "the job has no task n1_gfd_replace",
		"retry:n2_driver_replace":            "the job has no task n2_driver_replace",
		"skip:n1_node_cordon":                "cannot be skipped: abort the operation",
		"undo:n1_node_soak":                  "is not undone by a running operation",
		"undo:n1_driver_replace":             "is not undone by a running operation",
	} {
		err := newMachine(t).CheckOverride(wanted, "n1", value)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", value, err, want)
		}
	}
	if err := newMachine(t).CheckOverride(wanted, "n2", "retry:n1_driver_replace"); err == nil {
		t.Error("the job of another node has tasks of this one")
	}
}
