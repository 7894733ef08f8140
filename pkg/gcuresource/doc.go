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
// A pass observes, decides, applies and reports once (reconciler.go). What is decided
// is in pure packages: component (what a spec asks for), state (what there is, and how
// it does), plan (what is to be done), status (what is told), revision (which spec is
// kept and restored), nodelabel (which labels nodes have).
//
//	reconciler.go     one pass over a gr
//	observe.go        reading; podreader.go and indexedcache.go: pods and nodes as the cache holds them
//	apply.go          applying and deleting
//	specrevisions.go  keeping and restoring specs
//	report.go         writing the status, sending events
//	lastpass.go       what a process remembers of the passes before
//	watch.go          what wakes a pass; eventfilter.go, requests.go: which events, for which grs
//	nodelabeler.go    the labels of nodes
//
// The old status is asked for two things: whether an upgrade was under way, and
// whether it tells of the present spec.
//
// A pass that fails is repeated, later each time. What a component failed of is
// told at once, everything else when it lasts. A process remembers what it applied and
// what it saw (lastpass.go), to do and to look less; nothing is decided otherwise
// without.
package gcuresource
