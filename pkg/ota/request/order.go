package request

import "regexp"

// Order is what an operation should upgrade.
type Order struct {
	// Component is its key in the spec of a GcuResource or the name of its DaemonSet; ""
	// means everything outdated.
	Component string `json:"component,omitempty"`
	// Latest upgrades to the newest revision at the time the operator receives the order,
	// not at the time of the order.
	Latest bool `json:"latest,omitempty"`
}

var componentPattern = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)

// Validate refuses an invalid order or idempotency key.
func (o Order) Validate(key string) *Refusal {
	if o.Component != "" && !componentPattern.MatchString(o.Component) {
		return Refuse(ReasonMalformed, "Malformed component %.80q: it is 1 to 253 letters, digits, '-' and '.'.", o.Component)
	}
	if len(key) > 255 {
		return Refuse(ReasonMalformed, "The Idempotency-Key is longer than 255 characters.")
	}
	return nil
}
