// Package nodes runs stories on real nodes: kubelets with their own containerd, one of
// them also with dockerd, and the operator as shipped: its image, its manifests, the
// manager and the node agents as pods with their own rights. test/standin simulates the
// components. Stories for which simulated nodes are enough are in test/e2e; here are
// those that need real nodes: eviction of processes, cards that a kubelet allocates, and
// failures of links, power, disks and container engines.
//
// It needs root, Linux, and the programs that testcluster up --real-nodes installs; make
// test-nodes runs it. The stories of a group share a cluster and usually a gr: each
// continues where the previous one ended. Two groups run in parallel. Long stories run
// only in make long.
//
// The checks are independent of the operator: an observer (test/harness) watches pods and
// nodes, the state of a node is read on the node, and a driver that is replaced while a
// process has a card open fails.
package nodes
