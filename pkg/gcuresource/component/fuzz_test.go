package component_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/nodelabel"
)

// componentKeys are those of the spec.
var componentKeys = []string{"nfd", "driver", "toolkit", "plugin", "devicePlugin", "exporter", "gfd", "gcusharePlugin", "gcushareScheduler", "nightingale", "volcano"}

// FuzzSpec renders any fields of a component, and labels a node for it. It checks that the objects are the gr's, that
// names and namespaces are built in or the spec's, that workloads select their pods, and that labels of nodes
// that are not the operator's stay.
func FuzzSpec(f *testing.F) {
	for _, seed := range []struct{ key, fields, label, value, owned string }{
		{"nfd", `{"name":"n","namespace":"m","master":{"image":"a/b","env":[{"name":"A","value":"b"}]}}`, "feature.node.kubernetes.io/pci-1200_1e36.present", "true", "enflame.com/gcu.present"},
		{"driver", `{"namespace":"d","nodeSelector":{"a":"b"},"repository":"r:5000/x"}`, "enflame.com/gcu.present", "true", ""},
		{"toolkit", `{"version":"v1@sha256:0","imagePullSecrets":[{"name":"s"}]}`, "enflame.com/gcu.present", "false", "enflame.com/gcu.present"},
		{"plugin", `{"env":[{"name":"CUSTOM_REGISTER_RESOURCE","value":"a, b"}]}`, "a", "b", "x"},
		{"devicePlugin", `null`, "enflame.com/gcushare", "", ""},
		{"exporter", `{"name":"e","imagePullPolicy":"Never"}`, "", "", ""},
		{"gfd", `{"notDeploy":true}`, "", "", ""},
		{"gcusharePlugin", `{"gcushare-nodes":["n"],"name":"p"}`, "enflame.com/gcushare", "true", ",enflame.com/gcushare,x"},
		{"gcushareScheduler", `{"namespace":"s","name":"x"}`, "enflame.com/gcushare", "true", ""},
		{"nightingale", `{"namespace":"m","mysql-deploy":{"name":"db"},"mysql-pv":{"name":"v","hostpath":"/x"},"mysql-pvc":{"name":"c"}}`, "", "", ""},
		{"volcano", `{"scheduler":{"name":"q"}}`, "", "", ""},
	} {
		f.Add(uint8(slices.Index(componentKeys, seed.key)), []byte(seed.fields), seed.label, seed.value, seed.owned)
	}
	builtIn := map[string][]string{}
	for _, key := range componentKeys {
		for _, c := range rendered(f, key) {
			for _, d := range c.Objects {
				builtIn[key] = append(builtIn[key], d.Ref.Name, d.Ref.Namespace)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, fields []byte, label, value, owned string) {
		key := componentKeys[int(which)%len(componentKeys)]
		gr := grOf(key, fields)
		if gr == nil {
			return
		}
		components, err := component.Render(gr, "revision")
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range components {
			for _, d := range c.Objects {
				checkObject(t, gr, d, fields, builtIn[key])
			}
		}
		checkLabels(t, gr, label, value, owned)
	})
}

// grOf returns a gr with one component, nil if these are no fields of it.
func grOf(key string, fields []byte) *topsv1.GcuResource {
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "fuzzed", UID: "uid-fuzzed"}}
	if !json.Valid(fields) || json.Unmarshal(fmt.Appendf(nil, `{%q:%s}`, key, fields), &gr.Spec) != nil {
		return nil
	}
	return gr
}

// rendered returns a component with its built-in values.
func rendered(f *testing.F, key string) []component.Rendered {
	components, err := component.Render(grOf(key, []byte(`{}`)), "revision")
	if err != nil {
		f.Fatal(err)
	}
	return components
}

// checkObject checks one object of a gr.
func checkObject(t *testing.T, gr *topsv1.GcuResource, d component.Desired, fields []byte, builtIn []string) {
	t.Helper()
	for _, name := range []string{d.Ref.Name, d.Ref.Namespace} {
		encoded, _ := json.Marshal(name) // of a string
		if !slices.Contains(builtIn, name) && !named(fields, name) {
			t.Errorf("%s: neither the operator nor the spec says %s", d.Ref, encoded)
		}
	}
	owner := metav1.GetControllerOf(d.Object)
	if (d.Object.GetLabels()[topsv1.LabelGcuResource] == gr.Name) == d.Ref.Kept() || (owner == nil) != d.Ref.Kept() || owner != nil && owner.UID != gr.UID {
		t.Errorf("%s is not the gr's: labels %v, owner %v", d.Ref, d.Object.GetLabels(), owner)
	}
	if !d.Ref.Workload() || d.Ref.Kind == component.JobKind.Kind {
		return
	}
	selector, _, _ := unstructured.NestedStringMap(d.Object.Object, "spec", "selector", "matchLabels")
	template, _, _ := unstructured.NestedStringMap(d.Object.Object, "spec", "template", "metadata", "labels")
	if len(selector) == 0 || !labels.SelectorFromSet(selector).Matches(labels.Set(template)) {
		t.Errorf("%s selects %v, its pods have %v", d.Ref, selector, template)
	}
	containers, _, _ := unstructured.NestedSlice(d.Object.Object, "spec", "template", "spec", "containers")
	for _, c := range containers {
		if image, _ := c.(map[string]any)["image"].(string); !strings.Contains(image, "/") || strings.HasSuffix(image, "/") {
			t.Errorf("%s has image %q", d.Ref, image)
		}
	}
}

// named reports whether a string is somewhere in the fields of a component.
func named(fields []byte, name string) bool {
	var tree any
	_ = json.Unmarshal(fields, &tree) // it was decoded before
	var in func(any) bool
	in = func(v any) bool {
		switch v := v.(type) {
		case string:
			return v == name
		case []any:
			return slices.ContainsFunc(v, in)
		case map[string]any:
			for _, child := range v {
				if in(child) {
					return true
				}
			}
		}
		return false
	}
	return in(tree)
}

// checkLabels checks what the operator makes of a node with a label, and with a record of owned ones.
func checkLabels(t *testing.T, gr *topsv1.GcuResource, label, value, owned string) {
	t.Helper()
	before := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{label: value, "a": "b"}, Annotations: map[string]string{topsv1.AnnotationOwnedLabels: owned}}}
	for _, grs := range [][]topsv1.GcuResource{{*gr}, nil} {
		claims := nodelabel.Inputs{Resources: grs}
		after := nodelabel.Relabeled(before, claims)
		if again := nodelabel.Relabeled(after, claims); !cmp.Equal(after, again) {
			t.Errorf("the node changes again: %s", cmp.Diff(after, again))
		}
		foreign := func(node *corev1.Node) map[string]string {
			kept := map[string]string{}
			for key, value := range node.Labels {
				if key != topsv1.LabelGcuPresent && key != topsv1.LabelGcushare {
					kept[key] = value
				}
			}
			return kept
		}
		if diff := cmp.Diff(foreign(before), foreign(after)); diff != "" {
			t.Errorf("labels of others change:\n%s", diff)
		}
		if key := label; (key == topsv1.LabelGcuPresent || key == topsv1.LabelGcushare) && !slices.Contains(nodelabel.Owned(before), key) && after.Labels[key] != value {
			t.Errorf("label %s=%q, which somebody else set, is %q", key, value, after.Labels[key])
		}
	}
}
