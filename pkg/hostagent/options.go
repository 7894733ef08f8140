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

// Options configure an Executor. Fields without a default are required.
type Options struct {
	// StateDirectory holds the journal; it is made when it does not exist, and must
	// survive restarts of the node.
	StateDirectory string
	// HostRoot is where the root of the host is mounted: "/" outside a container.
	HostRoot string
	// Paths on the host; the zero value has the usual ones.
	Paths Paths
	// ServiceManager restarts engines. When nil, it is systemd where the host has
	// one, else Command.
	ServiceManager ServiceManager
	// Units of the engines in systemd, when they are not docker.service and
	// containerd.service.
	Units map[task.Engine]string
	// Command are the argument vectors that restart engines on hosts without systemd.
	Command map[task.Engine][]string
	// Host is the name or address of the node in the restart log.
	Host string
	// PodUID of the agent; "" when it runs in no pod. Its container must be running
	// after a restart.
	PodUID string
	// RestartLog is restart-docker.log; nil: none.
	RestartLog *logging.Dated
	// Poll is the time between two looks at a daemon that is coming back; 1 second when zero.
	Poll time.Duration
	// Settle is how long an agent that finds a restart asked for, and neither done
	// nor going on, waits before it asks again; 30 seconds when zero.
	Settle time.Duration
	Clock  clock.Clock
	Log    logr.Logger
}

// withDefaults fills in what may be left out.
func (o Options) withDefaults() Options {
	o.HostRoot, o.Paths = filepath.Clean(o.HostRoot), o.Paths.withDefaults()
	o.Poll, o.Settle = cmp.Or(o.Poll, time.Second), cmp.Or(o.Settle, 30*time.Second)
	return o
}

// command restarts engines on a host without systemd.
func (o Options) command() Command {
	return Command{Argv: o.Command, Directory: filepath.Join(o.StateDirectory, "commands")}
}
