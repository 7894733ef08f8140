// Package apiserver gives tests a real kube-apiserver with etcd, the shipped CRDs and
// the shipped rights. There are no controllers or kubelets: the tests simulate them.
//
// controller-runtime's envtest starts it from KUBEBUILDER_ASSETS, which make test sets.
// A test without a server fails. With -short it is skipped, which fails in CI: -short
// is for fast runs such as make mutants.
//
// The tests of a package share one server and use different object names. After the
// last test the server is stopped, and no goroutine may be left.
//
// The manifests are read from config/ by a relative path, so packages that use this
// must be two folders below the project's root.
package apiserver
