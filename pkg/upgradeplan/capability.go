package upgradeplan

import "slices"

// capability is one kind of task of the node agent: an action on a target, or on any if target is
// empty.
type capability struct{ name, target, action string }

// capabilities are all kinds of tasks that the node agent runs; the operator runs all others. An agent
// reports their names in status.agent. If it lacks one that an operation needs, it is older than the
// operator.
var capabilities = []capability{
	{"prepull", "", ActionPrepull},
	{"restart-runtime", TargetNode, ActionRestartRuntime},
	{"verify-driver", TargetDriver, ActionVerify},
	{"verify-runtime", TargetRuntime, ActionVerify},
}

// PrepullLight is the capability of an agent that pulls the images of spec.prepulls.
const PrepullLight = "prepull-light"

// targetPod is the target of pulls outside any operation.
const targetPod = "pod"

// PullTask returns the task of a pull outside any operation.
func PullTask(host string) Task { return Task{Host: host, Target: targetPod, Action: ActionPrepull} }

// Capability returns what a node agent must be capable of for a task, "" for a task of the
// operator.
func (t Task) Capability() string {
	i := slices.IndexFunc(capabilities, func(c capability) bool {
		return c.action == t.Action && (c.target == "" || c.target == t.Target)
	})
	if i < 0 {
		return ""
	}
	return capabilities[i].name
}

// Capabilities returns what a node agent of this version is capable of, sorted.
func Capabilities() []string {
	names := make([]string, len(capabilities))
	for i, c := range capabilities {
		names[i] = c.name
	}
	return slices.Sorted(slices.Values(append(names, PrepullLight)))
}
