// Suite runs the tests of this project: make test, make test-nodes and make long are
// three lists of steps for it.
//
//	suite test|nodes|long [--only STEP,...] [--list]
//
// A step is a program, mostly go test under gotestsum. Steps of one lane run one after
// the other, lanes at the same time: simulations and fuzzing run beside
// all others, at the lowest priority.
//
//	steps of a lane --> program --> lines on the terminal, bin/suite/STEP.log
//	                            --> bin/suite/STEP.json (go test) --> results
//	all results --> the slowest tests, what was skipped, one row per step
//
// When the environment has CI=true, a test that was skipped fails the run, as does a
// step of go test that ran no test: nothing passes by not running.
package main
