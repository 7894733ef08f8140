// Package apiserver gives tests a real kube-apiserver with etcd, with the CRDs and the
// rights that are shipped. There are no controllers and no kubelets: the tests play them.
//
// It is started by controller-runtime's envtest from what KUBEBUILDER_ASSETS names; make
// test sets it. A test that cannot have a server fails. With -short it is skipped, which
// fails in CI: -short is for what is in a hurry, such as make mutants.
//
// The tests of a package share one server, each with names of its own. After the last one
// the server ends, and no goroutine may be left.
//
// The manifests are read from config/, as seen from a package two folders below the
// project, where all tests that use this are.
package apiserver
