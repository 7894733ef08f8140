// Package story is the main job of the operator, told on a test cluster of 20
// nodes: deploy, upgrade past nodes that are offline, pick them up again, and
// let one node decide by itself. It is told twice, by the demo to people and by
// the end-to-end test to the test runner; a step that does not come out ends it
// with an error.
//
//	story.go     the chapters
//	rollout.go   following a rollout
//	narrator.go  what people see
package story
