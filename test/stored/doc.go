// Package stored tests that what an earlier version of the operator stored is understood. testdata/driver.yaml and
// exporter.yaml have the objects of v0.9.0 (make older) in the middle of a rollout of the driver, by operations, and of
// one of the exporter, as
//
//	STORED=FOLDER go test -C test/chart -tags=install -run='^TestInstall$/^helm4$' .
//
// writes them, without those that are like others. The next ones were stored before v1.0.0, with the nodes and pods of
// that time (Cluster): pkg/daemonupdater and pkg/nodeupgrade test what is decided from them. plan.yaml is in the middle
// of a plan, operating.yaml in that of an operation on two nodes, halted.yaml has a node that was rolled back individually,
// rolled-back.yaml a revision that is rejected, and ota.yaml a request of a node that waits.
//
//	STORED=FOLDER go test ./test/e2e -run='ByAPlan$|OfAGcuResourceIsRolledBack|AloneByAnOperation|TestARequestOfANodeWaits'
//
// writes them. every.yaml and recreation.yaml were written by hand; every.yaml has a value for every field that there is.
package stored
