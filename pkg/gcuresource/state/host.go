package state

import (
	"fmt"

	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// Host is what the NodeUpgrade of a node says about cards. It is comparable, and has only facts that
// decisions use: node agents write at least once a minute.
type Host struct {
	// Known is true once the node agent has reported; the other fields are zero before.
	Known bool
	// Cards on the node; 0 if they could not be counted.
	Cards int
	// Driver is the loaded version; empty for none.
	Driver string
	// Runtime is the default runtime of the container engine; empty if unknown.
	Runtime string
	// NeedsRestart is true until Runtime is the one through which containers get cards.
	NeedsRestart bool
	// restart is the state of the restart; why is the reason if it is givenUp.
	restart restart
	why     string
}

// restart is the state of the restart that a container engine needs.
type restart int

const (
	// notRequested: no operation has it as its task.
	notRequested restart = iota
	// underWay: an operation may touch the node, and has not ended. It has a deadline.
	underWay
	// givenUp: it is left to the administrator, or an operation ended without it.
	givenUp
)

// HostOf returns the host facts of a NodeUpgrade.
func HostOf(upgrade *topsv1.NodeUpgrade) Host {
	report := upgrade.Status.Host
	if report == nil {
		return Host{}
	}
	h := Host{Known: true, Cards: int(ptr.Deref(report.Devices, 0)), Driver: report.DriverVersion, NeedsRestart: report.NeedsRestart()}
	if report.Runtime != nil {
		h.Runtime = report.Runtime.Default
	}
	op := upgrade.Status.Operation
	left := operation.LeftToAdministrator(upgrade)
	switch {
	case left != "":
		h.restart, h.why = givenUp, left
	case !h.NeedsRestart || op == nil:
	case op.Reason == operation.ReasonLeftToAdministrator:
		h.restart, h.why = givenUp, op.Message
	case !op.Phase.Final() && op.Granted:
		h.restart = underWay
	case op.Phase.Final() && op.Phase != topsv1.OperationDone:
		h.restart, h.why = givenUp, fmt.Sprintf("the last operation of the node ended %s (%s): %s", op.Phase, op.Reason, op.Message)
	}
	return h
}

// NodesWithCards returns the names of the nodes, of those with the given hosts, whose node agents counted cards last.
func NodesWithCards(hosts map[string]Host) map[string]bool {
	has := map[string]bool{}
	for name, host := range hosts {
		has[name] = host.Cards > 0
	}
	return has
}

// restartText says what the node waits for before containers get cards; empty if its container
// engine needs no restart.
func (h *Host) restartText() string {
	switch {
	case !h.NeedsRestart:
		return ""
	case h.why != "":
		return fmt.Sprintf("the default runtime is %s; %s", h.Runtime, h.why)
	}
	return fmt.Sprintf("the default runtime is %s until docker or containerd is restarted", h.Runtime)
}
