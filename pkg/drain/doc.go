// Package drain evicts the pods that use the accelerator of a node, one pass at a time, and
// cordons the node (design section 4). It has no controller and no state: the caller, which
// runs the node's job, passes the result of one pass to the next.
//
//	Cordon ─► Pass ─┬─ done ──────► (the driver) ─► Uncordon
//	           ▲    ├─ not done    after a while, or when a pod is gone
//	           └────┤
//	                └─ out of time ► Uncordon; the node is retried later
//
//	Sweep, at start and periodically: uncordon what dead operations left
//
// A pass reads the node and its pods, decides (package eviction), evicts, and returns the
// outcome of each pod. It never sleeps and starts nothing that outlives it.
//
// A cordon and its mark, the annotation topsops.enflame.com/cordoned-by with the id of
// the operation, are written and removed in one patch (package cordon).
package drain
