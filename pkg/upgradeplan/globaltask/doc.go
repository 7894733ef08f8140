// Package globaltask decides about the tasks of a plan that belong to the cluster and not to a node
// (contract statement 91): those before the nodes, such as a copy of a database, and those after
// them, such as a check of the whole cluster.
//
//	UpgradePlan ──► GlobalTask ──► CronJob with the opt-in label ──► Job, created once, owned by the plan
//
// A plan names templates that an administrator has created for this purpose: a user who may write a plan can
// run nothing else, and with no other ServiceAccount. The Job holds the state of a task until the status
// of the plan has its result. Its name is derived from the plan and the task, so that neither a restarted
// manager nor a second one creates another Job.
//
//	Decide   results, Jobs ──► Progress    what is created next, or awaited  decide.go
//	Refusal  CronJob ──► why it may not be run                               template.go
//	JobOf    CronJob ──► Job
//
// The package is pure.
package globaltask
