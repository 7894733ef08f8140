// Package gcuresource deploys the GCU node software a GcuResource (gr) asks for.
//
// Package component lists the components in deployment order. Each renders a
// few typed objects, among them an OnDelete DaemonSet, or Deployments and Jobs;
// they are brought to the cluster by server-side apply under one field owner.
//
//	nfd > driver > toolkit > devicePlugin, or gcusharePlugin > gcushareScheduler
//	    > nightingale > exporter > gfd > volcano
//
// A component goes through these words, in the status of the gr:
//
//	             created when all before it run
//	             and its pods are waited for        a template changed
//	(nothing) ------> deploying ------> Running -----------------> upgrading
//	                      |                ^                           |
//	                      |                +---------------------------+
//	                      |                 every reachable node has it
//	                      +---> failed      a foreign object, or a refused apply
//
// Five rules hold:
//
//   - A component is created only when every one before it is Running: each
//     Ready node it belongs on has an available pod, or all its replicas are
//     available. Nodes that are not Ready do not count; they are named.
//   - A component that exists gets its newest template at once. Nobody here
//     replaces a pod: package daemonupdater does, under the annotations that
//     are carried from the gr onto its DaemonSets.
//     The pods of Deployments are replaced by Kubernetes.
//   - An object of somebody else is never taken over. It fails the component,
//     and what comes after it waits.
//   - Of two grs whose components exclude each other the older one deploys.
//   - Webhook configurations come when what answers them runs, and go before it.
//     CRDs, namespaces and the generated password stay when their gr goes.
//
// Before the templates of a spec are applied it is kept as a revision, and the
// DaemonSets say which one they come from. Annotation rollback-to restores one:
// the spec changes in the write that removes the annotation and that leaves
// another one behind, by which the phase is rollbacking instead of upgrading.
//
// A gr that is being deleted loses its components in reverse order, each with
// its pods on all Ready nodes, before the one in front of it; then the labels
// on the nodes go, if no other gr needs them, then the finalizer.
//
// A pass observes (observe.go), decides (plan.go, teardown.go), acts (act.go)
// and reports (status.go) once. Everything but the following files is pure:
//
//	reconciler.go   one pass over a gr
//	observe.go      reading
//	act.go          applying
//	history.go      keeping and restoring specs, decided in revision.go
//	cacheindex.go   pods and nodes as the cache holds them
//	trouble.go      telling what keeps failing
//	watch.go        what wakes a pass
//	nodelabeler.go  the label of GCU nodes, decided in labels.go
//
// The old status is asked for two things: whether an upgrade was under way, and
// whether it tells of the present spec.
//
// A pass that fails is repeated, later each time. What a component failed of is
// told at once, everything else when it lasts. A process remembers what it
// applied (memory.go) and what it saw (kept.go), to do and to look less; nothing
// is decided otherwise without.
package gcuresource
