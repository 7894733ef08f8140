// Package admission answers the API server when the spec of a GcuResource (gr) changes: whether the UpgradePolicy
// allows the versions (spec.versions, contract statement 97).
//
//	kubectl apply ─► API server ─► Versions.Handle ─► the prediction that plan and PUT are checked with
//	                     │                                │
//	                     │     refused, with the path  ◄──┤ on no reachable node
//	                     ◄─    allowed, with a warning ◄──┤ on some nodes, or it could not be checked
//	                           allowed               ◄────┘ on all
//
// Which changes are asked about is in config/webhook: not those of the operator, which may go back to any spec.
// The rollout looks at each node again, so whatever goes wrong here allows the change: it never keeps an
// administrator from writing. The port authenticates nobody; who does not know the UID of a gr learns
// nothing, and costs nothing.
package admission
