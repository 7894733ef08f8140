// Package drain empties one node of the pods that use its accelerator, one pass
// at a time, and cordons it meanwhile (design section 4). It has no controller
// and remembers nothing: who runs a node's job calls it, and keeps what a pass
// returns for the next one.
//
//	Cordon ─► Pass ─┬─ done ──────► (the driver) ─► Uncordon
//	           ▲    ├─ not done    after a while, or when a pod goes
//	           └────┤
//	                └─ out of time ► Uncordon; the node is tried again later
//
//	Sweep, at the start and now and then: uncordon what dead operations left
//
// A pass reads the node and its pods, decides (package eviction), evicts, and returns
// what became of each pod. It sleeps never and starts nothing that outlives it.
//
// A cordon and its mark, the annotation topsops.enflame.com/cordoned-by with the id of
// the operation, are written and removed in one patch (package cordon).
package drain
