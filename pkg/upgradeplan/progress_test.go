package upgradeplan

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const smallMission = `[[[["n1_x_stop","n1_y_stop"],["n1_x_start"]]],[[["n2_x_stop"]]]]`

func readMission(t *testing.T, text string) Mission {
	t.Helper()
	var m Mission
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func outcomes(of map[string]Outcome) func(Task) Outcome {
	return func(t Task) Outcome { return of[t.String()] }
}

func TestProgressOfAJob(t *testing.T) {
	job := readMission(t, smallMission)[0][0]
	cases := []struct {
		name         string
		of           map[string]Outcome
		next, failed []string
	}{
		{"the first stage runs together", nil, []string{"n1_x_stop", "n1_y_stop"}, nil},
		{"a stage waits for all of the one before", map[string]Outcome{"n1_x_stop": Done}, []string{"n1_y_stop"}, nil},
		{"the rest of a stage goes on when a task failed", map[string]Outcome{"n1_x_stop": Failed}, []string{"n1_y_stop"}, []string{"n1_x_stop"}},
		{"a failed task holds what comes after it", map[string]Outcome{"n1_x_stop": Failed, "n1_y_stop": Done}, nil, []string{"n1_x_stop"}},
		{"a skipped task holds nothing", map[string]Outcome{"n1_x_stop": Skipped, "n1_y_stop": Done}, []string{"n1_x_start"}, nil},
		{"a retried task alone runs again", map[string]Outcome{"n1_y_stop": Done, "n1_x_start": Done}, []string{"n1_x_stop"}, nil},
		{"all done or skipped is complete", map[string]Outcome{"n1_x_stop": Done, "n1_y_stop": Skipped, "n1_x_start": Done}, nil, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := job.Progress(outcomes(c.of))
			if diff := cmp.Diff(c.next, names(got.Next)); diff != "" {
				t.Errorf("next: %s", diff)
			}
			if diff := cmp.Diff(c.failed, names(got.Failed)); diff != "" {
				t.Errorf("failed: %s", diff)
			}
			if complete := c.next == nil && c.failed == nil; got.Complete() != complete {
				t.Errorf("complete is %v", got.Complete())
			}
		})
	}
}
