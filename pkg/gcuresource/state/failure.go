package state

import (
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/nodelabel"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Failure says why a component cannot be deployed.
type Failure struct {
	// Reason is one CamelCase word for a condition.
	Reason string
	// Message says what to do about it.
	Message string
	// Retry is true if retrying soon may help; false if someone has to change something first.
	Retry bool
}

func (f *Failure) Error() string { return f.Message }

// Reasons of a Failure.
const (
	// ReasonObjectConflict means that a foreign object has that name.
	ReasonObjectConflict = "ObjectConflict"
	// ReasonApplyFailed means that the API server rejected an object.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonComponentConflict means that another gr deploys a component that this one excludes.
	ReasonComponentConflict = "ComponentConflict"
	// ReasonNamespaceTerminating means that the component's namespace is being deleted.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonNamespaceMissing means that the component's namespace does not exist.
	ReasonNamespaceMissing = "NamespaceMissing"
	// ReasonJobFailed means that a Job of the component failed for good.
	ReasonJobFailed = "JobFailed"
	// ReasonNotInstalled means that a role of the component, or its binding, is not installed.
	ReasonNotInstalled = "NotInstalled"
	// ReasonDriverMissing means that nodes have no driver, and that no gr deploys it.
	ReasonDriverMissing = "DriverMissing"
	// ReasonNodeNotAllowed means that nodes of the control plane have a GCU and may not run components.
	ReasonNodeNotAllowed = "NodeNotAllowed"
)

// NotInstalled returns the Failure of a component without an object that an administrator installs.
func NotInstalled(name string, d *component.Desired) *Failure {
	what := d.Ref.String() + " is missing"
	if account := d.BoundAccount(); account != "" {
		what += ", or does not bind ServiceAccount " + account
	}
	return &Failure{Reason: ReasonNotInstalled, Message: what +
		": an administrator has to install it, with kubectl apply --server-side -k " + component.InstalledBy(name) + " (docs/install.md, rights of the components)"}
}

// DriverMissing returns the Failure of nodes without a driver, in the words of the guide: a deployment
// there is refused (contract statement 84).
func DriverMissing(nodes []string) *Failure {
	return &Failure{Reason: ReasonDriverMissing, Message: "no driver is loaded on " + message.Names(nodes) +
		": you should install the driver on the node in advance, or use the GcuResource to install the driver " +
		"(build the driver image, and set spec.driver.notDeploy to false)"}
}

// NodeNotAllowed returns the Failure of nodes of the control plane that have a GCU and may not run components; nil
// without such nodes.
func NodeNotAllowed(nodes []string) *Failure {
	if len(nodes) == 0 {
		return nil
	}
	has := " has a GCU and is"
	if len(nodes) > 1 {
		has = " have GCUs and are"
	}
	return &Failure{Reason: ReasonNodeNotAllowed, Message: message.Names(nodes) + has + " of the control plane, where components need the label " +
		nodelabel.AllowanceLabel + "=" + nodelabel.AllowanceValue + ": set it, or leave the node without components"}
}
