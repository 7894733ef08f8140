// Package harness runs the project's programs against a test cluster: the
// cluster (cluster.go), a manager and node agents as processes with the rights
// of the shipped ServiceAccounts (process.go), and an observer of its own that
// records the true number of nodes made unavailable (observer.go).
package harness
