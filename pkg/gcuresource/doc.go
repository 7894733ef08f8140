// Package gcuresource deploys the GCU node software that a GcuResource (gr) requests.
//
// Package component lists the components in deployment order. Each renders a few typed objects,
// among them an OnDelete DaemonSet, or Deployments and Jobs; they are applied by server-side
// apply under one field owner.
//
//	nfd > driver > toolkit > devicePlugin, or gcusharePlugin > gcushareScheduler
//	    > nightingale > exporter > gfd > volcano
//
// A component goes through these phases in the status of the gr:
//
//	             created when all before it run
//	             and waiting for its pods           a template changed
//	(nothing) ------> deploying ------> Running -----------------> upgrading
//	                      |                ^                           |
//	                      |                +---------------------------+
//	                      |                 every reachable node is updated
//	                      +---> failed      a foreign object, or a rejected apply
//
// Seven rules hold:
//
//   - A component is created only when every one before it runs: each Ready node it belongs on
//     has an available pod, and there is at least one node, or all its replicas are available.
//     Nodes that are not Ready do not count; they are named. A device plugin runs only if the
//     cards that node agents report are allocatable, and is first created when containers get
//     cards somewhere.
//   - An existing component gets its newest template at once. This package replaces no pods:
//     package daemonupdater does, by the annotations copied from the gr to its DaemonSets, and
//     Kubernetes replaces the pods of Deployments.
//   - The name of another component's DaemonSet is free when that is gone with its pods.
//   - A foreign object is never taken over. It fails the component, and those after it wait.
//   - Of two grs whose components exclude each other, the older one deploys.
//   - Webhook configurations are created when the pods behind them run, and deleted before them.
//     CRDs, namespaces and the generated password stay when their gr is deleted.
//   - Nothing is deployed, deleted or kept as a revision for an old spec: before a pass changes
//     anything, it reads the gr from the API server. A pass that changes nothing does not.
//
// Before the templates of a spec are applied, the spec is stored as a revision, and the
// DaemonSets name the revision they come from. Annotation rollback-to restores one: the same
// write changes the spec, removes the annotation and adds another one, which makes the phase
// rollbacking instead of upgrading.
//
// The components of a gr that is being deleted are removed in reverse order, each with its pods on all
// Ready nodes before the next one; then the labels on the nodes, if no other gr needs them; then
// the finalizer.
//
// A pass observes, decides, applies and reports once (reconciler.go). The decisions are in pure
// packages: component (what a spec requests), state (what exists, and its health), plan (what to
// do), status (what to report), revision (which spec is stored or restored), nodelabel (which
// labels nodes have).
//
//	reconciler.go     one pass over a gr
//	observe.go        reading; podreader.go and indexedcache.go: pods and nodes in the cache
//	former.go         pods under names that the spec no longer has
//	excluded.go       workloads of other grs that exclude a component
//	objects.go        reading and deleting lists of objects, confirming a gr
//	apply.go          applying and deleting
//	finalizer.go      first of all added, last of all removed
//	specrevisions.go  storing and restoring specs
//	report.go         writing the status, sending events
//	lastpass.go       what a process keeps from earlier passes
//	watch.go          what triggers a pass; eventfilter.go, requests.go: which events, for which grs
//	retry.go          when a failed pass is repeated
//	nodelabeler.go    the labels of nodes
//	metrics.go        the metrics of grs
//
// The old status is read for two facts only: whether an upgrade was in progress, and whether it
// describes the current spec.
//
// A failed pass is repeated with increasing delay. The cause of a component's failure is reported
// at once, other failures when they last. A process keeps what it has applied and seen
// (lastpass.go) to save work; decisions do not depend on it.
package gcuresource
