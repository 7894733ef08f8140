// Package harness runs the project's programs against a test cluster: the cluster
// (cluster.go), a manager and node agents as processes with the rights of the shipped
// ServiceAccounts (process.go), and an independent observer that records how many nodes
// are actually made unavailable (observer.go).
package harness
