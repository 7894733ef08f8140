// Package stored tests that what an earlier version of the operator stored is understood. testdata has the objects of
// v0.9.0 (make older) in the middle of a rollout of the driver, by operations, and of one of the exporter, as
//
//	STORED=FOLDER go test -C test/chart -tags=install -run='^TestInstall$/^helm4$' .
//
// writes them, without those that are like others; recreation.yaml was written by hand.
package stored
