// Package preview tells what an upgrade of a GcuResource (gr) is going to do, before
// it is begun: what becomes of each component, and which nodes are upgraded when, with
// which tasks, who leaves them, and which are left out and why.
//
//	the gr as it is        the gr as it would be
//	      │                        │
//	      └──► inquiry.Asker ◄─────┘    reads the cluster, with what follows:
//	              │
//	              ├─ components.go   renders both (pkg/gcuresource/component), compares what the
//	              │                  pods are made from, and foresees the DaemonSets
//	              ├─ rollout.go      plays the rollout with its own decisions (pkg/daemonupdater/rollout)
//	              │                  from its own input (pkg/daemonupdater/observed)
//	              ├─ evictions.go    who leaves the nodes that are drained
//	              ▼
//	           Preview
//
// What an upgrade does to a component depends on what there is of it. Only a DaemonSet
// with another template is upgraded node by node, under budget, waves and cut. All else
// happens at once, whatever the upgrade is limited to: a component that was not there is
// deployed, one that is not asked for any more is deleted, one with another name or
// namespace is both, and the pods of a Deployment are replaced by Kubernetes.
//
// A template is compared with that of the spec from which the DaemonSet was made last,
// which its annotation names and the operator keeps. So is each earlier revision of the
// DaemonSet: to go back to one leaves the pods alone that still have it.
//
// The package is pure. Both the REST API and kubectl gcu ask, through pkg/preview/inquiry.
package preview
