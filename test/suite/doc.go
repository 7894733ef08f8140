// Suite runs the tests of this project: make test, make test-nodes and make long are
// three lists of steps for it.
//
//	suite test|nodes|long [--only STEP,...] [--list]
//
// A step is a program, mostly go test under gotestsum. The steps of a lane run
// sequentially, lanes in parallel: simulations and fuzzing run next to all other steps,
// at the lowest priority.
//
//	steps of a lane --> program --> lines on the terminal, bin/suite/STEP.log
//	                            --> bin/suite/STEP.json (go test) --> results
//	all results --> the slowest tests, what was skipped, one row per step
//
// With CI=true in the environment, skipped tests and steps that run no test fail the
// run.
package main
