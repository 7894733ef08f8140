// Package nodeupgrade carries operations on nodes out: one reconcile per
// NodeUpgrade, whose name is that of the node.
//
//	observe ─► operation.Machine.Next ─► store the record ─► carry out the effects
//	   ▲                                                            │
//	   └──────── a watch, or the time that Next names ◄─────────────┘
//
// What happens is decided by package operation, which is pure. Here is what it sees
// and does.
//
// Read past the cache, for an operation that is not over: the NodeUpgrade, the Node
// (whose cordon is judged by its managed fields, which the cache lacks), the pods of
// a node that is being emptied, and a DaemonSet before it loses a pod. Of DaemonSets,
// their revisions and their pods the cache is enough: what is done about a pod fails
// when it is not as it was seen. A revision that contradicts the operation is looked
// at once more past the cache.
//
// Only status.operation and status.history are written, in one patch with the
// resourceVersion that was read. When it fails nothing is carried out. An effect that
// fails because the world has moved is no error: the next reconcile sees why. So the
// process may die after any line, and two leaders may overlap.
//
// A node without an operation, or whose operation is over, costs a look into the
// cache. What a NodeUpgrade that was deleted left on its node, a cordon or a taint, is
// taken away by the sweep: at the start, now and then, and when one is deleted.
//
// Others who upgrade nodes are looked for before the node is touched: see
// operation.OtherUpgrader.
package nodeupgrade
