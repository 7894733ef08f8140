// Package component is the catalog of what a GcuResource (gr) can deploy: one
// Entry per component, in deployment order, with what it needs, what it
// excludes, when it runs, what replacing it disturbs, and its objects.
//
// Render turns a gr into typed objects and those into what is applied. It is
// pure: the same gr always gives the same objects. The golden files in testdata
// are the built-in manifests as YAML; a person reads them there, and an image of
// the operator carries them in /opt/gcu-operator (contract statements 11 and 89).
//
//	catalog.go          the entries
//	render.go           gr -> objects, with owner, labels, annotations
//	object.go           what is special about kinds: kept, made once, applied first or last
//	fields.go           BaseFields over built-in values
//	manifest.go, rbac.go, volume.go   building blocks
//	nfd.go, driver.go … one file per component
package component
