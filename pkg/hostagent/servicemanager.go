package hostagent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// ServiceManager restarts a container engine. Execute calls one method at a time.
type ServiceManager interface {
	// Busy reports whether an earlier Restart of the same operation, possibly by an earlier
	// agent process, is still in progress. When in doubt it returns true.
	Busy(ctx context.Context, e task.Engine, operation string) (bool, error)
	// Restart restarts the engine, and returns when that is done or was refused. The restart
	// continues if the agent dies and, unless it can be stopped, if ctx ends. operation is
	// used in file names.
	Restart(ctx context.Context, e task.Engine, operation string) error
}

// Systemd restarts units through D-Bus.
type Systemd struct {
	// Bus returns the socket of the system bus.
	Bus func() (string, error)
	// Units returns the units that may run an engine, at least one.
	Units func(task.Engine) []string
}

var _ ServiceManager = Systemd{}

// unit returns the unit of an engine.
func (s Systemd) unit(ctx context.Context, connection *dbus.Conn, e task.Engine) (string, error) {
	units := s.Units(e)
	if len(units) == 1 {
		return units[0], nil
	}
	properties := make([]map[string]any, len(units))
	for i, unit := range units {
		var err error
		if properties[i], err = connection.GetUnitPropertiesContext(ctx, unit); err != nil {
			return "", fmt.Errorf("reading the state of %s: %w", unit, err)
		}
	}
	return unitThatRuns(units, properties)
}

// unitThatRuns returns, of several units that may run an engine, with their properties, the one that
// does, else the only one that is enabled. It is an error if neither says which: a node that is a
// worker must not become a server.
func unitThatRuns(units []string, properties []map[string]any) (string, error) {
	var enabled []string
	for i, unit := range units {
		if state := properties[i]["ActiveState"]; state == "active" || unitBusy(properties[i]) {
			return unit, nil
		}
		if properties[i]["UnitFileState"] == "enabled" {
			enabled = append(enabled, unit)
		}
	}
	if len(enabled) != 1 {
		return "", fmt.Errorf("cannot determine which of %s runs the container runtime: none is active, and not exactly one is enabled; set --containerd-unit", strings.Join(units, ", "))
	}
	return enabled[0], nil
}

// connect returns a new connection: the bus itself may be restarted.
func (s Systemd) connect(ctx context.Context) (*dbus.Conn, error) {
	socket, err := s.Bus()
	if err != nil {
		return nil, fmt.Errorf("connecting to systemd: %w", err)
	}
	connection, err := dbus.NewConnection(func() (*godbus.Conn, error) {
		// Authentication by uid needs no user database.
		return godbus.Connect("unix:path="+socket, godbus.WithContext(ctx), godbus.WithAuth(godbus.AuthExternal(strconv.Itoa(os.Getuid()))))
	})
	if err != nil {
		return nil, fmt.Errorf("connecting to systemd: %w", err)
	}
	return connection, nil
}

// Busy implements ServiceManager: the unit has a job, or is in a transitional state. A job of
// another client counts too: a restart on top of it would be a second one.
func (s Systemd) Busy(ctx context.Context, e task.Engine, _ string) (bool, error) {
	connection, err := s.connect(ctx)
	if err != nil {
		return false, err
	}
	defer connection.Close()
	unit, err := s.unit(ctx, connection, e)
	if err != nil {
		return false, err
	}
	properties, err := connection.GetUnitPropertiesContext(ctx, unit)
	if err != nil {
		return false, fmt.Errorf("reading the state of %s: %w", unit, err)
	}
	return unitBusy(properties), nil
}

func unitBusy(properties map[string]any) bool {
	if job, ok := properties["Job"].([]any); ok && len(job) > 0 {
		if id, ok := job[0].(uint32); ok && id != 0 {
			return true
		}
	}
	switch properties["ActiveState"] {
	case "activating", "deactivating", "reloading":
		return true
	}
	return false
}

// Restart implements ServiceManager. systemd continues if the agent dies.
func (s Systemd) Restart(ctx context.Context, e task.Engine, _ string) error {
	connection, err := s.connect(ctx)
	if err != nil {
		return err
	}
	defer connection.Close()
	unit, err := s.unit(ctx, connection, e)
	if err != nil {
		return err
	}
	result := make(chan string, 1)
	if _, err := connection.RestartUnitContext(ctx, unit, "replace", result); err != nil {
		return fmt.Errorf("asking systemd to restart %s: %w", unit, err)
	}
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting for systemd to restart %s: %w", unit, context.Cause(ctx))
	case outcome := <-result:
		if outcome != "done" {
			return fmt.Errorf("systemd says %q of restarting %s", outcome, unit)
		}
		return nil
	}
}

// MainPID returns the main process of an engine's unit, 0 when it is not running. It
// identifies the daemon when systemd itself listens on its socket.
func (s Systemd) MainPID(ctx context.Context, e task.Engine) (int, error) {
	connection, err := s.connect(ctx)
	if err != nil {
		return 0, err
	}
	defer connection.Close()
	unit, err := s.unit(ctx, connection, e)
	if err != nil {
		return 0, err
	}
	property, err := connection.GetServicePropertyContext(ctx, unit, "MainPID")
	if err != nil {
		return 0, fmt.Errorf("reading the main process of %s: %w", unit, err)
	}
	pid, ok := property.Value.Value().(uint32)
	if !ok {
		return 0, errors.New("systemd does not report the main process of " + unit)
	}
	return int(pid), nil
}
