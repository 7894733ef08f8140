package hostagent

import (
	"cmp"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/logging"
)

// Options configures an Executor. Fields without a default are required.
type Options struct {
	// StateDirectory holds the journal; it is created if absent, and must survive restarts of
	// the node.
	StateDirectory string
	// HostRoot is the mount point of the host's root: "/" outside a container.
	HostRoot string
	// Paths on the host; the zero value has the defaults.
	Paths Paths
	// ServiceManager restarts engines. When nil, it is systemd where the host has
	// one, else Command.
	ServiceManager ServiceManager
	// Units are the systemd units of the engines; default docker.service, and the unit of the
	// containerd of the host.
	Units map[task.Engine]string
	// Command are the argument vectors that restart engines on hosts without systemd.
	Command map[task.Engine][]string
	// Host is the name or address of the node in the restart log.
	Host string
	// PodUID is the UID of the agent's pod; "" outside a pod. Its container must be running
	// after a restart.
	PodUID string
	// RestartLog is restart-docker.log; nil: none.
	RestartLog *logging.Dated
	// Poll is the interval between two checks of a daemon that is restarting; 1 second when
	// zero.
	Poll time.Duration
	// RepeatAfter is how long a restarted agent, finding a requested restart neither done nor in
	// progress, waits before it repeats the request; 30 seconds when zero.
	RepeatAfter time.Duration
	Clock       clock.Clock
	Log         logr.Logger
}

// withDefaults fills in the defaults.
func (o Options) withDefaults() Options {
	o.HostRoot, o.Paths = filepath.Clean(o.HostRoot), o.Paths.withDefaults()
	o.Poll, o.RepeatAfter = cmp.Or(o.Poll, time.Second), cmp.Or(o.RepeatAfter, 30*time.Second)
	return o
}

// command returns the Command for a host without systemd.
func (o Options) command() Command {
	return Command{Argv: o.Command, Directory: filepath.Join(o.StateDirectory, "commands")}
}
