// Package hosttasks is the node agent's part of an operation on its node (design sections 4
// and 5). It has pkg/hostagent carry out the operation's tasks on the host, and reports the
// state of the host and the task results in status.host of the NodeUpgrade.
// pkg/nodeupgrade/operation is the counterpart: it begins tasks and interprets reports.
//
//	API server               Worker                     hostagent.Executor
//	    |                      |                                |
//	    |--- watch event ----->|  or a task ended, or the timer |
//	    |<-- read live --------|                                |
//	    |- RequestedTasks() -->|  others are canceled           |
//	    |                      |--- prepull, restart, verify -->| journal, then effect
//	    |                      |<-- facts, recorded results ----|
//	    |<-- apply status.host-|  on a relevant change,         |
//	    |                      |  and at least every minute     |
//
// # What is done, and when
//
// A task is begun only if the NodeUpgrade was read live right before, and its operation is
// running, not aborted, and for this Node object. The requested attempt of each task is
// executed once and echoed in its result; results come from the executor's journal, so they
// survive the agent. The executor ensures that a restart of the runtime takes effect at most
// once per operation (invariant S11).
//
//	n_COMPONENT_prepull       the images of the target, with its pull secrets
//	n_pod_prepull             the images of a prepull in the spec, outside any operation: the same
//	n_node_restart-runtime    Waiting when left to the administrator
//	n_driver_verify,          Done: the host was read for this attempt. The facts are
//	n_runtime_verify          in the report, and judged by the operator
//	n_node_precheck           needs the report only
//
// A prepull that is no longer requested is ended. A restart that has begun runs to its end,
// which the operator waits for.
//
// While the API server is unreachable, tasks in progress continue and no new ones begin; the
// report with the results follows when it is back.
//
// # Files
//
//	hostapi/     pure: which tasks are the agent's, their requests to the executor, and
//	             the report from facts and results
//	worker.go    the loop: read, begin, report
//	runner.go    the tasks in progress, their pull secrets, and those the executor refused
//	options.go   what a Worker needs
//	pull.go      images pulled at the request of a person on the node, through pkg/ota
package hosttasks
