package stored

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// schemas returns the schema of each of our kinds, without metadata.
func schemas(t *testing.T) map[string]*apiextensionsv1.JSONSchemaProps {
	t.Helper()
	files, err := filepath.Glob("../../config/crd/topsops.*.yaml")
	check(t, err)
	found := map[string]*apiextensionsv1.JSONSchemaProps{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(t, err)
		var crd apiextensionsv1.CustomResourceDefinition
		check(t, yaml.UnmarshalStrict(text, &crd))
		schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
		delete(schema.Properties, "metadata")
		found[crd.Spec.Names.Kind] = schema
	}
	return found
}

// fields calls yield for the path of each field of a schema that has none below it.
func fields(s *apiextensionsv1.JSONSchemaProps, path string, yield func(path string)) {
	for name := range s.Properties {
		below := s.Properties[name]
		fields(&below, path+"."+name, yield)
	}
	switch {
	case s.Items != nil:
		fields(s.Items.Schema, path+"[]", yield)
	case s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		fields(s.AdditionalProperties.Schema, path+"{}", yield)
	case len(s.Properties) == 0:
		yield(path)
	}
}

// filled calls yield for the path of each such field that has a value.
func filled(s *apiextensionsv1.JSONSchemaProps, value any, path string, yield func(path string)) {
	switch is := value.(type) {
	case map[string]any:
		for name, v := range is {
			if below, ok := s.Properties[name]; ok {
				filled(&below, v, path+"."+name, yield)
			} else if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
				filled(s.AdditionalProperties.Schema, v, path+"{}", yield)
			}
		}
	case []any:
		for _, v := range is {
			if s.Items != nil {
				filled(s.Items.Schema, v, path+"[]", yield)
			}
		}
	}
	if len(s.Properties) == 0 && s.Items == nil && value != nil {
		yield(path)
	}
}

// TestEveryFieldIsStored: so no field can be lost unnoticed. A new one gets a value in every.yaml; those that are there
// stay as they are, because they may be stored.
func TestEveryFieldIsStored(t *testing.T) {
	kinds := schemas(t)
	stored := map[string]bool{}
	for _, u := range read(t, "every.yaml").ours {
		filled(kinds[u.GetKind()], u.Object, u.GetKind(), func(path string) { stored[path] = true })
	}
	var missing []string
	for kind, schema := range kinds {
		fields(schema, kind, func(path string) {
			if !stored[path] {
				missing = append(missing, path)
			}
		})
	}
	if slices.Sort(missing); len(missing) > 0 || len(stored) < 900 {
		t.Errorf("%d fields have a value in testdata/every.yaml, and not %q", len(stored), missing)
	}
}
