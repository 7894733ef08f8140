// Package observed turns what was read of a group and its nodes into the input of a plan
// (pkg/daemonupdater/rollout), and the decided operation changes and pulls into the spec of NodeUpgrades.
//
//	group.go, member.go            which DaemonSets are upgraded together
//	state.go, ledger.go            DaemonSets, DaemonRollout -> rollout.Input
//	policy.go, window.go, windowbyzone.go
//	                               UpgradePolicy -> rollout.Policy; when its window is open
//	plan.go                        UpgradePlan -> batches, and what the plan leaves out
//	blocked.go                     why a group is blocked by its settings, a rollback or a global task
//	restarts.go                    groups without a strategy that only restart container runtimes
//	node.go, requests.go, operations.go, verification.go
//	                               Node, Pods, NodeUpgrade -> rollout.Node
//	component.go                   what the logic book says about a component
//	pinrequest.go                  requests to bring a component of a node back, or to end that
//	operationchange.go             rollout.OperationChange -> spec.operation
//	prepull.go, pulledmember.go    rollout.Prepull -> spec.prepulls, and the progress of pulls
//
// It is pure: the controller and the preview do the reading.
package observed
