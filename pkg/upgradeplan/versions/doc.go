// Package versions decides whether a node may go from the versions of components that it has to those
// that it is to get, by spec.versions of an UpgradePolicy (contract statement 97).
//
//	steps: which version may follow which     fit: what a version requires of its node
//	        │                                        │
//	        ▼                                        ▼
//	Policy.Refuse(Node{what it has, gets, its kernel and labels}) ─► refusals, with the steps that lead there
//
// A version that cannot be compared, such as latest, is refused by every rule that is about it. A step
// may be taken back: otherwise a rollout that fails could not be rolled back.
//
// The package is pure. The rollout asks it about each node, so previews and plans do too.
package versions
