// Package hosttasks is the node agent's part in an operation on its node (design
// sections 4 and 5). It has pkg/hostagent carry out what the operation asks of the
// host, and reports the host, with what became of the tasks, in status.host of the
// NodeUpgrade. pkg/nodeupgrade/operation is the other side: it begins tasks and says
// what a report means.
//
//	API server               Worker                     hostagent.Executor
//	    |                      |                                |
//	    |--- something changed-|  or a task ended, or the timer |
//	    |<-- read live --------|                                |
//	    |--- AskedOfHost() --->|  pulls nobody asks for end     |
//	    |                      |--- prepull, restart, verify -->| journal, then effect
//	    |                      |<-- facts, recorded results ----|
//	    |<-- apply status.host-|  when it says something new,   |
//	    |                      |  and every minute              |
//
// # What is done, and when
//
// A task is begun only when the NodeUpgrade was read live right before, its
// operation runs, is not aborted, and means this Node object. Of each task the
// attempt that is asked for is done once and echoed in its result; results are what
// the executor has in its journal, so they survive the agent. A restart of the
// runtime takes effect at most once per operation (invariant S11), which the
// executor sees to.
//
//	n_COMPONENT_prepull       the images of the target, with its pull secrets
//	n_node_restart-runtime    Waiting when it is left to the administrator
//	n_driver_verify,          Done: the host was read for this attempt. What it shows
//	n_runtime_verify          is in the report, and judged by the operator
//	n_node_precheck           needs the report only
//
// A prepull that is not asked for any more is ended. A restart that has begun goes on
// to its end, which the operator waits for.
//
// While the API server is away, what was begun goes on and nothing new is begun; the
// report with the results follows when it is back.
//
// # Files
//
//	hostapi/     pure: which tasks are the agent's, what they mean to the executor, and
//	             the report from facts and results
//	worker.go    the loop: read, begin, report
//	runner.go    the tasks under way, their pull secrets, and what the executor would not do
//	pull.go      images that the person at the node asked for, through pkg/ota
package hosttasks
