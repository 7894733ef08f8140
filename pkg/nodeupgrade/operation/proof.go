package operation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// LeftToAdministrator returns what an administrator has to do before containers of a node get cards,
// in the words of the node agent if it was asked; "" if no restart is needed, or if the agent
// restarts the runtime itself. Of an agent that does not say, it is known once it was asked.
func LeftToAdministrator(u *topsv1.NodeUpgrade) string {
	if !u.Status.Host.NeedsRestart() {
		return ""
	}
	told := ""
	for _, r := range slices.Backward(u.Status.History) {
		if covers(&r, upgradeplan.TargetNode, upgradeplan.ActionRestartRuntime) {
			if r.Reason == ReasonLeftToAdministrator {
				told = r.Message
			}
			break
		}
	}
	agent := u.Status.Agent
	switch {
	case agent == nil || agent.RestartsRuntime == nil:
		return told
	case *agent.RestartsRuntime:
		return ""
	}
	engine, stops := u.Status.Host.Runtime, ""
	switch known := engine.RestartStopsContainers; {
	case known == nil:
		stops = " (this may stop all containers of the node)"
	case *known:
		stops = " (this stops all containers of the node)"
	}
	return cmp.Or(told, fmt.Sprintf("the default runtime of %s on node %s is %q: restart it on the node%s, for example with: systemctl restart %s; the node agent leaves this to the administrator (--restart-runtime=false)",
		engine.Engine, u.Name, engine.Default, stops, engine.Engine))
}

// Unverified reports whether the last operation that was to replace the pod of a component, and
// touched the node, ended before its work was verified. One that was left to the administrator is
// done when the runtime is restarted, and those from before its DaemonSet was created do not count.
func Unverified(u *topsv1.NodeUpgrade, component string, created time.Time) bool {
	history := u.Status.History
	if component == "" || !slices.ContainsFunc(history, endedUnverified) {
		return false
	}
	for _, r := range slices.Backward(history) {
		switch {
		case created.After(r.EndTime.Time):
			return false
		case covers(&r, component, upgradeplan.ActionReplace) && evident(r):
			return endedUnverified(r)
		}
	}
	return false
}

func endedUnverified(r topsv1.OperationRecord) bool {
	early := r.Phase == topsv1.OperationDeferred || r.Phase == topsv1.OperationAborted
	return early && r.Touched && r.Reason != ReasonLeftToAdministrator
}

// covers reports whether the job of an ended operation had a task.
func covers(r *topsv1.OperationRecord, target, action string) bool {
	return slices.ContainsFunc(tasksOf(r), func(name string) bool {
		t, err := upgradeplan.ParseTask(name)
		return err == nil && t.Target == target && t.Action == action
	})
}
