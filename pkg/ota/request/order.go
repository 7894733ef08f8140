package request

import "regexp"

// Order is what an operation is to do.
type Order struct {
	// Component is its key in the spec of a GcuResource or the name of its DaemonSet;
	// "" is all that is outdated.
	Component string `json:"component,omitempty"`
	// Latest takes the revision that is the newest when the operator is told, not the
	// one that was when it was asked.
	Latest bool `json:"latest,omitempty"`
}

var componentPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)

// Validate refuses what cannot be an order and its idempotency key.
func (o Order) Validate(key string) *Refusal {
	if o.Component != "" && !componentPattern.MatchString(o.Component) {
		return Refuse(ReasonMalformed, "Malformed component %.80q: it is 1 to 253 letters, digits, '-' and '.'.", o.Component)
	}
	if len(key) > 255 {
		return Refuse(ReasonMalformed, "The Idempotency-Key is longer than 255 characters.")
	}
	return nil
}
