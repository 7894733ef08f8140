package gating

// Mode is whether pods are gated.
type Mode string

// Modes.
const (
	// Off: the gate was not asked for.
	Off Mode = ""
	// On: the API server has the policy.
	On Mode = "On"
	// NotServed: the gate was asked for, and the API server does not serve it.
	NotServed Mode = "NotServed"
	// NotInstalled: the gate was asked for, and the policy is not installed. What was installed may
	// have left pods at the gate.
	NotInstalled Mode = "NotInstalled"
)

// Active reports whether the operator does its part: without it, nothing is read or written for the gate.
func (m Mode) Active() bool { return m == On || m == NotInstalled }

// Why returns why the gate that was asked for is not there, "" if it is, or was not asked for.
func (m Mode) Why() string {
	const consequence = ": pods that are deleted or evicted, and those of nodes that join, start the newest version at once"
	switch m {
	case NotServed:
		return "the API server does not serve MutatingAdmissionPolicy v1 (Kubernetes 1.36 or later)" + consequence
	case NotInstalled:
		return "config/gate is not installed" + consequence
	case Off, On:
	}
	return ""
}
