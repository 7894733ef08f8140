package state

// Failure says why a component cannot be deployed.
type Failure struct {
	// Reason is one CamelCase word for a condition.
	Reason string
	// Message says what to do about it.
	Message string
	// Retry is true when trying again soon may help; false when somebody has
	// to change something first.
	Retry bool
}

func (f *Failure) Error() string { return f.Message }

// Reasons of a Failure.
const (
	// ReasonObjectConflict means that an object of that name belongs to somebody else.
	ReasonObjectConflict = "ObjectConflict"
	// ReasonApplyFailed means that the API server refused an object.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonComponentConflict means that another gr deploys what must not run
	// beside this component.
	ReasonComponentConflict = "ComponentConflict"
	// ReasonNamespaceTerminating means that the component's namespace is being deleted.
	ReasonNamespaceTerminating = "NamespaceTerminating"
	// ReasonNamespaceMissing means that the component's namespace does not exist.
	ReasonNamespaceMissing = "NamespaceMissing"
	// ReasonJobFailed means that a Job of the component gave up.
	ReasonJobFailed = "JobFailed"
)
