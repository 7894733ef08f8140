// Package preview tells what an upgrade of a GcuResource (gr) is going to do, before
// it is begun: what becomes of each component, and which nodes are upgraded when, with
// which tasks, who leaves them, and which are left out and why.
//
//	the gr as it is        the gr as it would be
//	      │                        │
//	      └────────► Asker ◄───────┘
//	                  │  components.go: renders both (pkg/gcuresource/component) and compares
//	                  │                 what the pods are made from
//	                  ▼
//	          daemonupdater.Previewer     plays the rollout with the decisions of the rollout
//	                  │
//	                  ▼
//	               Preview
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
// The package reads and writes nothing. Both the REST API and kubectl gcu ask it.
package preview
