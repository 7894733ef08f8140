// Package versions decides by spec.versions of an UpgradePolicy whether the components of a node may go from
// their present versions to the wanted ones (contract statement 97).
//
//	steps: which version may follow which     fit: what a version requires of its node
//	        │                                        │
//	        ▼                                        ▼
//	Policy.Refuse(Node{what it has, gets, its kernel and labels}) ─► refusals, with the steps that lead there
//
// A version that cannot be compared, such as latest, is refused by every rule that applies to it. Steps
// may also be taken backwards: otherwise a rollout that fails could not be rolled back.
//
// The package is pure. The rollout applies it to each node, and so do previews and plans.
package versions
