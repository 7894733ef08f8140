// Package observed turns what was read of a group and its nodes into the input of a plan
// (pkg/daemonupdater/rollout), and the operation changes of a decision into operations of nodes.
//
//	group.go, member.go            which DaemonSets are upgraded together
//	state.go, policy.go, ledger.go DaemonSets, UpgradePolicy, DaemonRollout -> rollout.Input
//	node.go, requests.go, operations.go
//	                               Node, Pods, NodeUpgrade -> rollout.Node
//	operationchange.go             rollout.OperationChange -> NodeOperation
//
// It is pure: the controller and the preview do the reading.
package observed
