package gating

// Mode is whether pods are gated.
type Mode string

// Modes. Unless it is On, nothing is read or written for the gate.
const (
	// Off: the gate was not asked for.
	Off Mode = ""
	// On: the API server serves the kind of the policy.
	On Mode = "On"
	// NotServed: the gate was asked for, and the API server does not serve it.
	NotServed Mode = "NotServed"
)

// WhyNotServed is what is reported about NotServed.
const WhyNotServed = "the API server does not serve MutatingAdmissionPolicy v1 (Kubernetes 1.36 or later): pods that are deleted or evicted, and those of nodes that join, start the newest version at once"
