package gcuresource

import (
	"maps"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// exemption is what may differ between a cluster with a history and one in which the last spec
// was deployed alone.
type exemption struct {
	// rule says why.
	rule string
	// kinds that it is for; nil means all.
	kinds []string
	// fields that may differ.
	fields [][]string
	// stays is true for objects that may be left by an earlier spec, and goes for those that are
	// not compared at all.
	stays, goes bool
}

// exemptions are all of them; everything else must be equal.
var exemptions = []exemption{
	{rule: "what the API server gives to every object", fields: [][]string{{"metadata", "uid"}, {"metadata", "resourceVersion"},
		{"metadata", "creationTimestamp"}, {"metadata", "managedFields"}, {"metadata", "generation"}}},
	{rule: "the history of a gr and of its DaemonSets (contract 2.10)", kinds: []string{"ControllerRevision"}, goes: true},
	{rule: "Ref.Kept: CRDs, namespaces and the generated password stay (decision D16)",
		kinds: []string{"CustomResourceDefinition", "Namespace", "Secret"}, stays: true},
	{rule: "Ref.Shared: created when missing, then used as they are", kinds: []string{"Namespace", "Secret"},
		fields: [][]string{{"metadata", "labels"}, {"metadata", "ownerReferences"}, {"spec"}, {"data"}, {"stringData"}, {"status"}}},
	{rule: "Ref.CreateOnly: the template of a Job is immutable, and it has done its work", kinds: []string{"Job"},
		fields: [][]string{{"spec"}, {"metadata", "annotations", topsv1.AnnotationCreatedFrom}}},
	{rule: "written by other controllers, and by the API server", kinds: []string{"CustomResourceDefinition", "DaemonSet", "Deployment", "Job",
		"PersistentVolume", "PersistentVolumeClaim", "Pod", "Service"}, fields: [][]string{{"status"}}},
	{rule: "component.WithAntiAffinity: what took over from another DaemonSet keeps apart from it until its template changes (docs/adr/0014)", kinds: []string{"DaemonSet"},
		fields: [][]string{{"metadata", "annotations", topsv1.AnnotationSuccessorOf}, {"spec", "template", "spec", "affinity"}}},
	{rule: "the hash of a template that keeps apart", kinds: []string{"Pod"}, fields: [][]string{{"metadata", "labels", "controller-revision-hash"}}},
	{rule: "allocated by the API server", kinds: []string{"Service"}, fields: [][]string{{"spec", "clusterIP"}, {"spec", "clusterIPs"}}},
	{rule: "the status of a gr says which action was the last (contract 37 to 42)", kinds: []string{topsv1.GcuResourceKind},
		fields: [][]string{{"status", "conditions"}, {"status", "standardConditions"}, {"status", "observedGeneration"}}},
}

// of reports whether an exemption is for an object.
func (e exemption) of(o *unstructured.Unstructured) bool {
	return e.kinds == nil || slices.Contains(e.kinds, o.GetKind())
}

// compared is a cluster without what may differ.
type compared struct {
	objects map[string]map[string]any
	// stay are the names of objects that need not exist in a fresh deployment.
	stay map[string]bool
}

// look returns what is compared of the objects of a cluster.
func look(list []*unstructured.Unstructured) compared {
	c := compared{map[string]map[string]any{}, map[string]bool{}}
	for _, o := range list {
		name := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
		content, goes := runtime.DeepCopyJSON(o.Object), false
		for _, e := range exemptions {
			if !e.of(o) {
				continue
			}
			goes = goes || e.goes
			c.stay[name] = c.stay[name] || e.stays
			for _, field := range e.fields {
				unstructured.RemoveNestedField(content, field...)
			}
		}
		owners, _, _ := unstructured.NestedFieldNoCopy(content, "metadata", "ownerReferences")
		if owners, ok := owners.([]any); ok {
			for _, owner := range owners {
				delete(owner.(map[string]any), "uid")
			}
		}
		if !goes {
			c.objects[name] = content
		}
	}
	return c
}

// differsFrom returns how a cluster differs from one with a fresh deployment, "" if it does not.
func (c compared) differsFrom(fresh compared) string {
	got := maps.Clone(c.objects)
	maps.DeleteFunc(got, func(name string, _ map[string]any) bool { return fresh.objects[name] == nil && c.stay[name] })
	var differ []string
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if fresh.objects[name] == nil {
			differ = append(differ, name+" is left")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fresh.objects)) {
		if got[name] == nil {
			differ = append(differ, name+" is missing")
		} else if diff := cmp.Diff(fresh.objects[name], got[name]); diff != "" {
			differ = append(differ, name+" differs (-fresh +got):\n"+diff)
		}
	}
	return strings.Join(differ, "\n")
}
