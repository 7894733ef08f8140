// Package component is the catalog of what a GcuResource (gr) can deploy: one Entry per
// component, in deployment order, with what it needs, what it excludes, when it runs, and how a
// spec changes its objects.
//
// The objects themselves are YAML, manifests/<component>.yaml, with the built-in values. They are
// embedded, and the operator's image has the same files in /opt/gcu-operator for reading
// (contract statements 11 and 89). To change a default, an image or a rule of a role, edit the
// file. The objects are listed in the status in the order of the file (contract statement 49),
// and applied by the ranks of Ref. No Go code builds an object: named functions replace the
// values that a spec sets, each with the number of the statement it implements.
//
//	manifests/NAME.yaml ─ decoded once, strictly ─▶ copies
//	  ─ patch (patches.go): fields that only this component has
//	  ─ apply (fields.go): BaseFields
//	  ─ fill (render.go): owner, labels, annotations ─▶ Rendered
//
// RenderIn is pure: the same gr in the same Cluster always gives the same objects.
//
//	catalog.go      the entries
//	manifest.go     YAML -> objects
//	fields.go       a function per field of BaseFields
//	distributions.go what the toolkit needs on nodes of k3s, RKE2 and MicroK8s
//	patches.go      a function per other field of a spec
//	render.go       gr -> what is applied
//	object.go       rules per kind: kept, created only, applied first or last
//	volcanocrds.go  the CRDs of volcano, compressed as released
package component
