// Package audit reports on an upgrade: who asked for it, approved and held, what ran on which node, when,
// for how long, and what failed. It is pure: objects in, documents out.
//
//	Upgrades       the upgrades that the record of a rollout has      upgrades.go
//	Of             the report of one of them                          report.go, nodes.go, pods.go, work.go
//	Report.Markdown, Report.HTML                                      markdown.go, html.go, report.html
//
// No data is stored only for reports. The record of a DaemonRollout (status.record, 40 entries) has the decisions;
// status.history of the NodeUpgrades (20 operations each) has the work on the nodes that had operations; a
// new pod shows when it was replaced, as long as it runs. A pod that was created after the end of an upgrade is not
// counted as its work, and one whose readiness changed after the end does not show when the work on it ended. The
// report names what is missing because it is no longer stored.
package audit
