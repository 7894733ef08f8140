package hosttasks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

func TestImagesThatWereAskedForAtTheNode(t *testing.T) {
	host := newHost(t)
	b := newBench(t, &fakeCluster{nodeUpgrade: idle()}, host.root)
	target := topsv1.OperationTarget{
		DaemonSet: topsv1.NamespacedRef{Namespace: "kube-system", Name: "driver"}, Revision: "r2",
		Images: []string{"registry.example.com/driver:2"}, PullSecrets: []string{"pull"},
	}
	if r := b.Pulled("pull-1"); r != nil {
		t.Fatalf("before it was asked: %+v", r)
	}
	host.write("registry/down", "")
	if err := b.Pull(t.Context(), "pull-1", target); err != nil {
		t.Fatal(err)
	}
	if r := b.Pulled("pull-1"); r == nil || r.State != topsv1.HostTaskFailed || !strings.Contains(r.Message, "the registry is down") || !strings.Contains(r.Message, "pull secret kube-system/pull") {
		t.Fatalf("from a registry that is down: %+v", r)
	}
	host.remove("registry/down")
	if err := b.Pull(t.Context(), "pull-1", target); err != nil {
		t.Fatal(err)
	}
	if r := b.Pulled("pull-1"); r == nil || r.State != topsv1.HostTaskDone || !host.has("registry.example.com/driver:2") {
		t.Fatalf("repeated: %+v", r)
	}
	host.write("registry/hold", "")
	ctx, killed := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		target.Images = []string{"registry.example.com/driver:3"}
		if err := b.Pull(ctx, "pull-2", target); err != nil {
			t.Errorf("the agent ended: %v", err)
		}
	}()
	until(t, "the pull has begun", func() bool { return b.Pulled("pull-2") != nil })
	killed()
	<-ended
	if r := b.Pulled("pull-2"); r == nil || r.State != topsv1.HostTaskRunning || b.Restarting() {
		t.Errorf("what the agent died over: %+v", r)
	}
	host.remove("registry/hold")
	tasks := filepath.Join(b.state, "tasks") // an unwritable disk
	if err := errors.Join(os.RemoveAll(tasks), os.WriteFile(tasks, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := b.Pull(t.Context(), "pull-3", target); !errors.Is(err, task.ErrNotRecorded) {
		t.Errorf("what cannot be recorded: %v", err)
	}
}
