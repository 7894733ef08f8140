// Bench measures the speed of rollouts on test clusters, side by side with
// Kubernetes' own RollingUpdate in the same run on the same cluster.
//
//	bench [--cases 1000,qps,offline,restart,quiet,plan,gr,api,agent] [--repetitions 2]
//
// Each case starts a cluster, a manager with the rights of its ServiceAccount,
// and two DaemonSets that differ in who replaces their pods only. They are
// rolled one after the other, in turn first.
//
//	main.go      flags, and what is run in which order
//	cases.go     the cases with their targets
//	bed.go       a cluster with a manager and the two DaemonSets
//	roll.go      one rollout, measured
//	watcher.go   who counts: a fleet that is followed to a version, by the tests' observer
//	manager.go   what the manager's process and client used
//	machine.go   the machine, and how busy it was
//	quiet.go     a system in which nothing happens
//	plan.go      the Go benchmarks of the planner
//	gr.go        a GcuResource on many nodes that nobody changes
//	api.go       the REST API under load
//	press.go     requests at fixed times
//	slow.go      callers who send slowly, in a process of their own
//	agent.go     one node agent: what it uses, and how soon a request is carried out
//	targets.go   the targets, and whether they are met
//	report.go    the tables
//
// The exit status is 1 when a rollout did not complete or made more nodes
// unavailable than allowed, never because of a time.
package main
