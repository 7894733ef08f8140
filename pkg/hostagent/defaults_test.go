package hostagent

import (
	"testing"
	"time"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// A restart of docker may stop the agent before it sees the new daemon.
func TestADefaultRuntimeIsRememberedAcrossProcesses(t *testing.T) {
	state, restarted := t.TempDir(), noon.Add(-time.Minute)
	seen := func(name, instance string, started time.Time) time.Time {
		return newExecutor(t, state, func(*Options) {}).defaults.since(&task.RuntimeFacts{Engine: task.Docker, Default: name, Instance: instance, Started: started})
	}
	if got := seen("runc", "a", restarted.Add(-time.Hour)); !got.IsZero() {
		t.Errorf("that of the first look is since %s", got)
	}
	for range 2 {
		if got := seen("enflame", "b", restarted); !got.Equal(restarted) {
			t.Errorf("it is since %s, want %s", got, restarted)
		}
	}
	// While docker restarts, containerd answers.
	if got := newExecutor(t, state, func(*Options) {}).defaults.since(&task.RuntimeFacts{Engine: task.Containerd, Default: "runc", Instance: "x", Started: noon}); !got.IsZero() {
		t.Errorf("that of the first look at another engine is since %s", got)
	}
	if got := seen("enflame", "c", noon); !got.Equal(restarted) {
		t.Errorf("after another restart it is since %s, want %s", got, restarted)
	}
	// Both answer the same process in turn.
	both := newExecutor(t, state, func(*Options) {}).defaults
	for _, f := range []task.RuntimeFacts{{Engine: task.Containerd, Default: "enflame", Instance: "y", Started: noon}, {Engine: task.Docker, Default: "enflame", Instance: "c", Started: noon}} {
		if got := both.since(&f); f.Engine == task.Docker && !got.Equal(restarted) {
			t.Errorf("after containerd answered, that of docker is since %s, want %s", got, restarted)
		}
	}
}
