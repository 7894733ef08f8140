package host

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

const (
	systemdName    = "org.freedesktop.systemd1"
	managerPath    = dbus.ObjectPath("/org/freedesktop/systemd1")
	containerdUnit = "containerd.service"
	containerdPath = managerPath + "/unit/containerd_2eservice"
	absentPath     = managerPath + "/unit/k3s_2eservice"
)

// systemd simulates systemd on a real bus: it has one unit, and restarts a real daemon.
type systemd struct {
	connection *dbus.Conn
	restart    func() error
	jobs       uint32
}

// RestartUnit is called through D-Bus.
func (s *systemd) RestartUnit(unit, mode string) (dbus.ObjectPath, *dbus.Error) {
	if unit != containerdUnit || mode != "replace" {
		return "", dbus.NewError("org.freedesktop.systemd1.NoSuchUnit", []any{"Unit " + unit + " not found."})
	}
	s.jobs++
	job, id := managerPath+dbus.ObjectPath(fmt.Sprintf("/job/%d", s.jobs)), s.jobs
	go func() {
		result := "done"
		if s.restart() != nil {
			result = "failed"
		}
		_ = s.connection.Emit(managerPath, systemdName+".Manager.JobRemoved", id, job, unit, result)
	}()
	return job, nil
}

// startBus starts a bus below a daemon's host root, with a simulated systemd.
func startBus(t *testing.T, d daemon, restart func() error) *prop.Properties {
	t.Helper()
	socket := filepath.Join(d.Root, "run/dbus/system_bus_socket")
	check(t, os.MkdirAll(filepath.Dir(socket), 0o755))
	check(t, os.MkdirAll(filepath.Join(d.Root, "run/systemd/system"), 0o755))
	config := filepath.Join(d.Root, "bus.conf")
	check(t, os.WriteFile(config, []byte(`<busconfig><type>session</type><listen>unix:path=`+socket+`</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`), 0o600))
	bus := exec.Command("dbus-daemon", "--config-file", config, "--nofork", "--nopidfile")
	check(t, bus.Start())
	t.Cleanup(func() { _ = bus.Process.Kill(); _ = bus.Wait() })
	var connection *dbus.Conn
	check(t, poll(10*time.Second, "the bus", func() (up bool) {
		var err error
		connection, err = dbus.Connect("unix:path="+socket, dbus.WithContext(t.Context()))
		return err == nil
	}))
	t.Cleanup(func() { _ = connection.Close() })
	check(t, connection.Export(&systemd{connection: connection, restart: restart}, managerPath, systemdName+".Manager"))
	pids, err := d.started()
	check(t, err)
	properties, err := prop.Export(connection, containerdPath, prop.Map{
		systemdName + ".Unit": {
			"ActiveState":   {Value: "active"},
			"UnitFileState": {Value: "enabled"},
			"Job": {Value: struct {
				ID   uint32
				Path dbus.ObjectPath
			}{0, "/"}},
		},
		systemdName + ".Service": {"MainPID": {Value: uint32(pids[0])}},
	})
	check(t, err)
	// A unit that somebody has started by mistake.
	_, err = prop.Export(connection, absentPath, prop.Map{systemdName + ".Unit": {"LoadState": {Value: "loaded"}, "ActiveState": {Value: "failed"}}})
	check(t, err)
	if reply, err := connection.RequestName(systemdName, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		t.Fatalf("owning %s: %v, %v", systemdName, reply, err)
	}
	return properties
}

func TestSystemdRestartsTheRuntime(t *testing.T) {
	d := startEngine(t, task.Containerd)
	refuse := false
	properties := startBus(t, d, func() error {
		if refuse {
			return os.ErrPermission
		}
		return restartDaemon(d.file())
	})
	execute := func(id, runtime string, change func(*hostagent.Options)) task.Result {
		t.Helper()
		o := optionsOf(d, t.TempDir())
		o.Command = nil // not needed with systemd
		change(&o)
		e, err := hostagent.New(o)
		check(t, err)
		result, err := e.Execute(context.Background(), task.Request{ID: id, Task: "runtime_restart-runtime",
			RestartRuntime: &task.RestartRuntime{DefaultRuntime: runtime, Allowed: true}})
		check(t, err)
		return result
	}
	same := func(*hostagent.Options) {}

	d.configure(t, first)
	if got := execute("a", first, same); got.State != topsv1.HostTaskDone || got.Reason != task.ReasonRestarted {
		t.Errorf("result %+v", got)
	}
	if pids, err := d.started(); err != nil || len(pids) != 2 {
		t.Errorf("starts %v, %v; want the first and one more", pids, err)
	}
	d.configure(t, second)
	refuse = true
	if got := execute("b", second, same); got.Reason != task.ReasonRestartFailed || !strings.Contains(got.Message, `"failed"`) {
		t.Errorf("result %+v, want what systemd says", got)
	}
	got := execute("c", second, func(o *hostagent.Options) {
		o.Units = map[task.Engine]string{task.Containerd: "k3s.service"}
	})
	if got.Reason != task.ReasonRestartFailed || !strings.Contains(got.Message, "k3s.service") {
		t.Errorf("result %+v, want the unit that is not there", got)
	}

	manager := hostagent.Systemd{Bus: func() (string, error) { return filepath.Join(d.Root, "run/dbus/system_bus_socket"), nil }, Units: func(task.Engine) []string { return []string{"k3s.service", "containerd.service"} }}
	pids, err := d.started()
	check(t, err)
	if pid, err := manager.MainPID(t.Context(), task.Containerd); err != nil || pid != pids[0] {
		t.Errorf("main process %d, %v; want %d", pid, err, pids[0])
	}
	for _, state := range []struct {
		active string
		job    uint32
		busy   bool
	}{{"active", 0, false}, {"active", 7, true}, {"deactivating", 0, true}, {"failed", 0, false}} {
		properties.SetMust(systemdName+".Unit", "ActiveState", state.active)
		properties.SetMust(systemdName+".Unit", "Job", struct {
			ID   uint32
			Path dbus.ObjectPath
		}{state.job, "/"})
		if busy, err := manager.Busy(t.Context(), task.Containerd, "x"); err != nil || busy != state.busy {
			t.Errorf("busy=%t, %v of %+v", busy, err, state)
		}
	}
}
