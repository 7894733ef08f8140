// Package admission responds to the API server when the spec of a GcuResource (gr) changes: whether the UpgradePolicy
// allows the versions (spec.versions, contract statement 97).
//
//	kubectl apply ─► API server ─► Versions.Handle ─► the prediction that plan and PUT are checked with
//	                     │                                │
//	                     │     refused, with the path  ◄──┤ on no reachable node
//	                     ◄─    allowed, with a warning ◄──┤ on some nodes, it could not be checked, or on none in a dry run
//	                           allowed               ◄────┘ on all
//
// Which changes the API server sends is in config/webhook: not those of the operator, which may go back to any spec.
// The rollout looks at each node again, so whatever goes wrong here allows the change: it never keeps an
// administrator from writing.
//
// The port does not authenticate its callers. A caller that does not know the UID of a gr learns nothing, and costs only the
// memory of its bodies, which is bounded (port.go). Those who may read objects or events of the gr know its UID: such a
// caller learns what the API server would, and can keep the semaphore busy, so that changes are allowed without being
// checked. Plans and PUT of the REST API have a semaphore of their own.
//
//	port.go      HTTP: one AdmissionReview
//	change.go    what is read of it
//	versions.go  the decision
package admission
