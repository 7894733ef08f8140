package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// fieldsOfOthers are fields of the kinds of Kubernetes and Flux.
var fieldsOfOthers = []string{"spec.healthCheckExprs", "spec.nodeName", "spec.unschedulable", "spec.updateStrategy.type"}

// TestFieldsExist: each field of a spec or status that a page names, such as spec.driver.version or, for any component,
// spec.<component>.version, is one of a CRD.
func TestFieldsExist(t *testing.T) {
	var schemas []apiextensionsv1.JSONSchemaProps
	files, err := filepath.Glob(filepath.Join(root, "config/crd/topsops.*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, file := range files {
		name, err := filepath.Rel(root, file)
		if err != nil {
			t.Fatal(err)
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict([]byte(read(t, name)), &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			schemas = append(schemas, *version.Schema.OpenAPIV3Schema)
		}
	}
	path, named := regexp.MustCompile(`(?:^|[^\w./-])((?:spec|status)(?:\.(?:[a-zA-Z-]+|<[a-z]+>)(?:\[\])?)+)`), 0
	for _, p := range pages(t) {
		for _, piece := range code(p.text) {
			for _, m := range path.FindAllStringSubmatch(piece, -1) {
				named++
				has := func(s apiextensionsv1.JSONSchemaProps) bool { return hasField(s, strings.Split(m[1], ".")) }
				if !slices.ContainsFunc(schemas, has) && !slices.Contains(fieldsOfOthers, m[1]) {
					t.Errorf("%s: %s is no field of a CRD", p.name, m[1])
				}
			}
		}
	}
	if named < 50 {
		t.Errorf("found only %d fields", named)
	}
}

// hasField reports whether a schema has a field; <…> in its path stands for any one.
func hasField(s apiextensionsv1.JSONSchemaProps, path []string) bool {
	if s.Items != nil {
		return hasField(*s.Items.Schema, path)
	}
	if len(path) == 0 {
		return true
	}
	for name, field := range s.Properties {
		if (name == strings.TrimSuffix(path[0], "[]") || strings.HasPrefix(path[0], "<")) && hasField(field, path[1:]) {
			return true
		}
	}
	return false
}
