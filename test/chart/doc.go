// Package chart tests the Helm chart in charts/gcu-operator. It is a Go module of its own, so that helm and
// kustomize are no dependencies of the operator. TestInstall installs the chart with the helm programs (make test-install); the
// other tests need no cluster.
package chart
