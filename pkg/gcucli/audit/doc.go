// Package audit tells one upgrade afterwards: who asked for it, approved and held, what ran on which node, when,
// for how long, and what failed. It is pure: objects in, documents out.
//
//	Upgrades       the upgrades that the record of a rollout has      upgrades.go
//	Of             the report of one of them                          report.go, nodes.go, pods.go, work.go
//	Report.Markdown, Report.HTML                                      markdown.go, html.go, report.html
//
// Nothing is kept for it alone. The record of a DaemonRollout (status.record, 40 entries) has the decisions;
// status.history of the NodeUpgrades (20 operations each) has the work on the nodes that had operations; a
// pod that was just replaced says when itself, as long as it runs. A pod that was created after the end of an upgrade is no work of it, and one
// whose readiness changed after the end does not say when the work on it ended. What was kept no longer is named as missing.
package audit
