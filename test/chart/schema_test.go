package chart

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v3/pkg/chart/loader"
)

func TestWrongValuesAreRefused(t *testing.T) {
	for values, want := range map[string]string{
		"notifications: {url: 'https://example.com'}": "notifications.url needs notifications.secretName",
		"replicas: 2":                      "additional properties 'replicas' not allowed",
		"image: {tag: latest}":             "/image/tag",
		"image: {digest: abc}":             "/image/digest",
		"restAPI: {auth: basic}":           "/restAPI/auth",
		"gcuResource: {deploy: 'yes'}":     "/gcuResource/deploy",
		"global: {registry: 'a registry'}": "/global/registry",
		"{gate: {enabled: true}, admissionPolicies: {enabled: false}}": "/admissionPolicies/enabled",
		"gcuResource: {driver: {version: 1}}":                          "additional properties 'version' not allowed",
		"gcuResource: {name: Bad_Name}":                                "/gcuResource/name",
		"gcuResource: {spec: {exporter: {version: 1.10}}}":             "/gcuResource/spec/exporter/version",
		"gcuResource: {spec: {exporterr: {}}}":                         "additional properties 'exporterr' not allowed",
		"gcuResource: {spec: {nfd: {worker: {tag: v1}}}}":              "additional properties 'tag' not allowed",
		"gcuResource: {spec: {driver: {env: [{value: a}]}}}":           "/gcuResource/spec/driver/env/0",
		"global: {registry: 'https://mirror.example.com'}":             "/global/registry",
		"image: {repository: 'https://mirror.example.com/gcu'}":        "/image/repository",
		"autoscaling: {enabled: true, minReplicas: 5, maxReplicas: 2}": "autoscaling.minReplicas is 5, more than autoscaling.maxReplicas, 2",
		"restAPI: {service: {nodePort: 80}}":                           "/restAPI/service/nodePort",
	} {
		for helm, render := range map[string]func(*testing.T, string) ([]object, error){"Helm 3": tryRender, "Helm 4": tryRender4} {
			if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s: got %v, want %q", helm, values, err, want)
			}
		}
	}
}

// TestRightValuesAreAccepted: registries of all forms, and the specs of all examples of grs.
func TestRightValuesAreAccepted(t *testing.T) {
	accepted := []string{"restAPI: {service: {nodePort: 0}}", "restAPI: {service: {nodePort: 1024}}", "autoscaling: {enabled: true, minReplicas: 2, maxReplicas: 2}"}
	for _, registry := range []string{"mirror", "mirror:5000", "10.0.0.1:5000", "mirror.example.com/proxy/a_b-c", "Mirror.example.com"} {
		accepted = append(accepted, "global: {registry: "+registry+"}", "image: {repository: "+registry+"}")
	}
	examples, err := filepath.Glob(filepath.Join(root, "examples", "*"))
	check(t, err)
	for _, example := range examples {
		if ending := filepath.Ext(example); ending != ".json" && ending != ".yaml" {
			continue
		}
		text, err := os.ReadFile(example)
		check(t, err)
		for _, o := range parse(t, string(text)) {
			if o["kind"] == "GcuResource" {
				spec, err := yaml.Marshal(o["spec"])
				check(t, err)
				accepted = append(accepted, "gcuResource:\n  deploy: true\n  spec:\n    "+strings.ReplaceAll(string(spec), "\n", "\n    "))
			}
		}
	}
	for _, values := range accepted {
		if _, err := tryRender(t, values); err != nil {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// TestTheSchemaHasEveryValue: what is in values.yaml only would be refused.
func TestTheSchemaHasEveryValue(t *testing.T) {
	loaded, err := loader.Load(chartPath)
	check(t, err)
	var schema map[string]any
	check(t, yaml.Unmarshal(loaded.Schema, &schema))
	equalKeys(t, "", loaded.Values, schema)
}

// equalKeys compares the keys of values with the properties of their schema.
func equalKeys(t *testing.T, path string, values map[string]any, schema map[string]any) {
	t.Helper()
	properties, _ := schema["properties"].(map[string]any)
	if properties == nil {
		return // any
	}
	for key := range properties {
		if _, found := values[key]; !found {
			t.Errorf("the schema has %s%s, and values.yaml has not", path, key)
		}
	}
	for key, value := range values {
		property, found := properties[key].(map[string]any)
		if !found {
			t.Errorf("values.yaml has %s%s, and the schema has not", path, key)
			continue
		}
		if below, ok := value.(map[string]any); ok {
			equalKeys(t, path+key+".", below, property)
		}
	}
}
