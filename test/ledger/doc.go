// Package ledger tests that a real API server stores the largest ledger that the plan of a
// rollout makes.
package ledger
