package state

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
)
