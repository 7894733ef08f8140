// Package preview predicts an upgrade of a GcuResource (gr): what happens to each
// component, which nodes are upgraded when, with which tasks, which pods they evict, and
// which nodes are left out and why.
//
//	the gr as it is        the gr as it would be
//	      │                        │
//	      └──► inquiry.Asker ◄─────┘    reads the cluster, and uses:
//	              │
//	              ├─ components.go   renders both (pkg/gcuresource/component), compares pod
//	              │                  templates, and predicts the DaemonSets
//	              ├─ rollout.go      simulates the rollout with its own decisions (pkg/daemonupdater/rollout)
//	              │                  and its own input (pkg/daemonupdater/observed)
//	              ├─ evictions.go    which pods are evicted from drained nodes
//	              ▼
//	           Preview
//
// What an upgrade does to a component depends on what is deployed. Only a DaemonSet with a
// changed template is upgraded node by node, under budget, waves and cut. All other changes
// happen at once, regardless of the limit of the upgrade: a new component is deployed, a
// removed one is deleted, one with another name or namespace is both, and Kubernetes
// replaces the pods of a Deployment.
//
// A template is compared with that of the spec from which the DaemonSet was last made,
// which its annotation names and the operator keeps. The same holds for each earlier
// revision of the DaemonSet: going back to one does not replace the pods that still have
// it.
//
// The package is pure. The REST API and kubectl gcu use it through pkg/preview/inquiry.
package preview
