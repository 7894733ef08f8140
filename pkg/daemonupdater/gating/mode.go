package gating

// Mode says whether pods are gated.
type Mode string

// Modes.
const (
	// Off: the gate is not enabled (flag --gate).
	Off Mode = ""
	// On: the API server has the policy.
	On Mode = "On"
	// NotServed: the gate is enabled, but the API server does not serve MutatingAdmissionPolicy v1.
	NotServed Mode = "NotServed"
	// NotInstalled: the gate is enabled, but the policy is not installed. An earlier installation may have left pods at the
	// gate.
	NotInstalled Mode = "NotInstalled"
)

// Active reports whether the operator reads or writes anything for the gate.
func (m Mode) Active() bool { return m == On || m == NotInstalled }

// Why returns why the enabled gate is not available, "" if it is available or not enabled.
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
