package upgradeplan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Contract 91.
func TestATaskIsWrittenAndReadBack(t *testing.T) {
	for text, want := range map[string]Task{
		"host1_nova-api_up-rpm":               {"host1", "nova-api", "up-rpm"},
		"n1.example.com_devicePlugin_replace": {"n1.example.com", "devicePlugin", "replace"},
		"upg-server_all_commit":               {"upg-server", "all", "commit"},
	} {
		got, err := ParseTask(text)
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
		if got.String() != text {
			t.Errorf("%s is written as %s", text, got)
		}
	}
}

func TestParseTaskRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "is not of the form host_target_action",
		"n1_driver":             "is not of the form host_target_action",
		"n1_driver_up_rpm":      "is not of the form host_target_action",
		"_driver_replace":       "the host has no name",
		"n1__replace":           "the target has no name",
		"n1_driver_":            "the action has no name",
		"n1_driver_$(reboot)":   `action "$(reboot)" may have`,
		"n1;rm_driver_replace":  `host "n1;rm" may have`,
		"n1_dri ver_replace":    `target "dri ver" may have`,
		"n1_driver_replace\n":   "may have",
		"n1_driver\"]_restart":  "may have",
		"n1_Treiber-ü_replace":  "may have",
		"../n1_driver_replace ": "may have",
	} {
		if _, err := ParseTask(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want %q", text, err, want)
		}
	}
}

func TestATaskThatCouldNotBeReadBackIsNotWritten(t *testing.T) {
	if text, err := json.Marshal(Mission{{{{{"n_1", "driver", "replace"}}}}}); err == nil {
		t.Errorf("written as %s", text)
	}
	if text, err := json.Marshal(Mission{{{{{"n1", "", "replace"}}}}}); err == nil {
		t.Errorf("written as %s", text)
	}
}

func TestMissionValidateRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`[[]]`:                                       "batch 1 has no jobs",
		`[[[["n1_x_a"]]],[[]]]`:                      "batch 2: a job has no stages",
		`[[[[]]]]`:                                   "has no tasks",
		`[[[["n1_x_a"],[]]]]`:                        "stage 2 of the job of host",
		`[[[["n1_x_a","n2_x_a"]]]]`:                  "task n2_x_a is in a job of host n1",
		`[[[["n1_x_a"],["n1_x_a"]]]]`:                "task n1_x_a appears twice",
		`[[[["n1_x_a"]]],[[["n1_x_a"]]]]`:            "batch 2: task n1_x_a appears twice",
		`[[[["n1_x_a"]]],[[["n1_y_a"],["n2_y_b"]]]]`: "batch 2: task n2_y_b is in a job of host n1",
	} {
		var m Mission
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		if err := m.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", text, err, want)
		}
	}
}

// The framework's document has such a plan for tests: no dispatch, no check, one component.
// Contract 92.
func TestAMissionWrittenByHandIsValid(t *testing.T) {
	var m Mission
	if err := json.Unmarshal([]byte(`[[[["A_X_dispatch"],["A_X_stop"],["A_X_uprpm"],["A_X_start"]]]]`), &m); err != nil {
		t.Fatal(err)
	}
	if err := m.Validate(); err != nil {
		t.Error(err)
	}
	if err := m[0][0].Validate(); err != nil {
		t.Error(err)
	}
	if host := m[0][0].Host(); host != "A" {
		t.Errorf("the job is of host %q", host)
	}
}
