// Package observed makes the input of a plan (pkg/daemonupdater/rollout) from what was
// read of a group and of its nodes, and the operations that a decision orders of nodes.
//
//	group.go, member.go            which DaemonSets are rolled together
//	state.go, policy.go, ledger.go DaemonSets, UpgradePolicy, DaemonRollout -> rollout.Input
//	node.go, requests.go, operations.go
//	                               Node, Pods, NodeUpgrade -> rollout.Node
//	order.go                       rollout.Order -> NodeOperation
//
// It is pure: the controller reads, and so does a preview.
package observed
