// Bench measures the speed of rollouts on test clusters, side by side with
// Kubernetes' own RollingUpdate in the same run on the same cluster.
//
//	bench [--cases 1000,groups] [--repetitions 4]
//
// Each case starts a cluster, a manager with the rights of its ServiceAccount, and two
// DaemonSets that differ only in their update strategy. They are rolled one after the
// other, in random order.
//
//	main.go         flags, and the order of the cases
//	cases.go        the cases with their targets
//	racecluster.go  a cluster with a manager and the two DaemonSets
//	roll.go         one rollout, measured
//	watcher.go      follows a fleet to a version, with the tests' observer
//	manager.go      resource usage and requests of the manager
//	machine.go      the machine and its other load
//	quiet.go        an idle system
//	plan.go         the Go benchmarks of the planner
//	gr.go           an unchanged GcuResource on many nodes
//	api.go          the REST API under load
//	load.go         requests at fixed times
//	slow.go         slow clients, in a separate process
//	agent.go        one node agent: its resource usage, and the latency of requests
//	targets.go      the targets, and whether they were met
//	report.go       the tables
//
// The exit status is 1 if a rollout did not complete or exceeded its budget, never
// because of a duration.
package main
