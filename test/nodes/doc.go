// Package nodes tells stories on real nodes: kubelets with their own containerd, one of
// them with a dockerd too, and the operator as it is shipped: its image, its manifests,
// the manager and the node agents as pods with their own rights. The components are
// played by test/standin.
//
// It needs root and Linux, and what testcluster up --real-nodes installs; make test-nodes
// runs it. The stories of a group share a cluster, the groups are told at the same time.
// Each story deploys a gr, and takes it away again.
//
// Who checks is not the operator: pods and nodes are watched by an observer of its own
// (test/harness), what is on a node is looked up there, and a driver that is replaced
// while a process has a card open fails by itself.
package nodes
