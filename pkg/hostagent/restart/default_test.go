package restart

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

func TestSinceWhenARuntimeIsTheDefault(t *testing.T) {
	began, now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC), time.Date(2030, 1, 1, 12, 5, 0, 0, time.UTC)
	before := Default{Engine: task.Docker, Name: "runc", Instance: "a"}
	ours := Default{Engine: task.Docker, Name: "enflame", Instance: "a", Since: began}
	for name, tt := range map[string]struct {
		before Default
		seen   task.RuntimeFacts
		want   Default
	}{
		"unknown of the first that is seen": {Default{}, task.RuntimeFacts{Engine: task.Docker, Default: "enflame", Instance: "a", Started: began}, Default{Engine: task.Docker, Name: "enflame", Instance: "a"}},
		"the start of the daemon that came with it": {before, task.RuntimeFacts{Engine: task.Docker, Default: "enflame", Instance: "b", Started: began},
			Default{Engine: task.Docker, Name: "enflame", Instance: "b", Since: began}},
		"now, if the daemon goes on":           {before, task.RuntimeFacts{Engine: task.Docker, Default: "enflame", Instance: "a", Started: began}, Default{Engine: task.Docker, Name: "enflame", Instance: "a", Since: now}},
		"now, if its start is unknown":         {before, task.RuntimeFacts{Engine: task.Docker, Default: "enflame", Instance: "b"}, Default{Engine: task.Docker, Name: "enflame", Instance: "b", Since: now}},
		"as before, if the daemon starts anew": {ours, task.RuntimeFacts{Engine: task.Docker, Default: "enflame", Instance: "b", Started: now}, Default{Engine: task.Docker, Name: "enflame", Instance: "b", Since: began}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.before.Seen(&tt.seen, now)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
