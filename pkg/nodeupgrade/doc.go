// Package nodeupgrade carries out operations on nodes: one reconcile per NodeUpgrade, which
// has the name of its node.
//
//	observe ─► operation.Machine.Next ─► store the record ─► carry out the effects
//	   ▲                                                            │
//	   └──────────── a watch event, or RequeueAfter ◄───────────────┘
//
// Package operation, which is pure, decides. This package reads the facts and carries out the
// effects.
//
// For an operation that is not over, these are read past the cache: the NodeUpgrade, the Node
// (whose cordon is judged by its managed fields, which the cache lacks), the pods of a node
// that is being drained, and a DaemonSet before one of its pods is deleted. The cache is
// enough for DaemonSets, their revisions and their pods: a write to a pod fails if the pod
// has changed. A revision that contradicts the operation is read again past the cache.
//
// Only status.operation and status.history are written, in one patch at the resourceVersion
// that was read; before evictions also when nothing changes, as the API server then refuses the patch of a process that
// does not know the state. If it fails, no effect is carried out. An effect that fails because the
// object has changed is no error: the next reconcile reads the new state. So the process may
// die after any line, and two leaders may overlap.
//
// A node without an operation, or whose operation is over, costs one look at the cache. A
// cordon or taint left on a node by a deleted NodeUpgrade is removed by the sweep: at start,
// periodically, and when a NodeUpgrade is deleted.
//
// Other upgraders are checked for before the node is touched: see operation.OtherUpgrader.
package nodeupgrade
