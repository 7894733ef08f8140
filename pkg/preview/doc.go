// Package preview predicts an upgrade of a GcuResource (gr): what happens to each
// component, which nodes are upgraded when, with which tasks, which pods they evict, and
// which nodes are left out and why.
//
//	the gr as it is        the gr as it would be
//	      │                        │
//	      └──► inquiry.Predictor ◄─────┘    reads the cluster, and uses:
//	              │
//	              ├─ components.go   renders both (pkg/gcuresource/component), compares pod
//	              │                  templates, and predicts the DaemonSets
//	              ├─ rollout.go      simulates the rollout with its own decisions (pkg/daemonupdater/rollout)
//	              │                  and its own input (pkg/daemonupdater/observed)
//	              ├─ evictions.go    which pods are evicted from drained nodes
//	              ▼
//	           Preview
//
// What an upgrade does to a component depends on what is deployed. A DaemonSet with a changed
// template is upgraded node by node, under budget, waves and limit. So is one that is removed or gets
// another name or namespace, if the gr has a strategy: its pods leave node by node. All other changes
// happen at once, regardless of the limit of the upgrade: a new component is deployed, without a
// strategy a removed or renamed one is deleted, and Kubernetes replaces the pods of a Deployment.
//
// A template is compared with the one rendered from the spec that the DaemonSet was last made from;
// an annotation of the DaemonSet names that spec, and the operator keeps it. Each earlier revision of
// the DaemonSet is compared in the same way: going back to one does not replace the pods that still
// have it.
//
// The package is pure. The REST API and kubectl gcu use it through pkg/preview/inquiry.
package preview
