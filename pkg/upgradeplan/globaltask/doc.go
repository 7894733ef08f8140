// Package globaltask decides about the tasks of a plan that belong to the cluster and not to a node
// (contract statement 91): those before the nodes, such as a copy of a database, and those after
// them, such as a check of the whole cluster.
//
//	UpgradePlan ──► GlobalTask ──► CronJob with the opt-in label ──► Job, made once, owned by the plan
//
// A plan names templates that an administrator has made for this: who may write a plan runs nothing
// else with them, and with no other ServiceAccount. The Job is the memory of a task until the status
// of the plan has its result. Its name follows from the plan and the task, so that a manager that
// dies in between, or a second one, makes no other.
//
//	Decide   results, Jobs ──► Progress    what is made next, or awaited     decide.go
//	Refusal  CronJob ──► why it may not be run                               template.go
//	JobOf    CronJob ──► Job
//
// The package is pure.
package globaltask
