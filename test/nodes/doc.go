// Package nodes tells stories on real nodes: kubelets with their own containerd, one of
// them with a dockerd too, and the operator as it is shipped: its image, its manifests,
// the manager and the node agents as pods with their own rights. The components are
// played by test/standin. What simulated nodes show is told in test/e2e; here is what only
// a real node shows: processes that are evicted, cards that a kubelet hands out, links,
// power, disks and container engines that fail under them.
//
// It needs root and Linux, and what testcluster up --real-nodes installs; make test-nodes
// runs it. The stories of a group share a cluster and mostly a gr: each goes on where the
// one before ended. Two groups are told at the same time. Those that take long are told by
// make long only.
//
// Who checks is not the operator: pods and nodes are watched by an observer of its own
// (test/harness), what is on a node is looked up there, and a driver that is replaced
// while a process has a card open fails by itself.
package nodes
