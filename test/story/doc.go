// Package story runs the operator's main scenario on a test cluster of 20 nodes:
// deploy, upgrade while nodes are offline, upgrade these when they return, and upgrade
// driver and toolkit of one node on its own request, although a training runs there. Both the demo and an end-to-end test run it; it ends
// with an error at the first step that fails.
//
//	story.go     the chapters
//	onenode.go   those about one node
//	rollout.go   following a rollout
//	narrator.go  what people see
package story
