package chart

import (
	"os"
	"path/filepath"
	"slices"
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
		"{gate: {enabled: true}, admissionPolicies: {enabled: false}}":   "/admissionPolicies/enabled",
		"gcuResource: {driver: {version: 1}}":                            "additional properties 'version' not allowed",
		"gcuResource: {name: Bad_Name}":                                  "/gcuResource/name",
		"gcuResource: {spec: {exporter: {version: 1.10}}}":               "/gcuResource/spec/exporter/version",
		"gcuResource: {spec: {exporterr: {}}}":                           "additional properties 'exporterr' not allowed",
		"gcuResource: {spec: {nfd: {worker: {tag: v1}}}}":                "additional properties 'tag' not allowed",
		"gcuResource: {spec: {driver: {env: [{value: a}]}}}":             "/gcuResource/spec/driver/env/0",
		"global: {registry: 'https://mirror.example.com'}":               "/global/registry",
		"image: {repository: 'https://mirror.example.com/gcu'}":          "/image/repository",
		"autoscaling: {enabled: true, minReplicas: 5, maxReplicas: 2}":   "autoscaling.minReplicas is 5, more than autoscaling.maxReplicas, 2",
		"nodeAgent: {args: ['--ota-socket-group=1000']}":                 "nodeAgent.args has --ota-socket-group=1000: set nodeAgent.otaSocketGroup",
		"nodeAgent: {args: ['--ota-socket=']}":                           "the probes of the node agent call its default socket",
		"nodeAgent: {otaSocketGroup: -1}":                                "/nodeAgent/otaSocketGroup",
		"restAPI: {service: {nodePort: 65536}}":                          "/restAPI/service/nodePort",
		"restAPI: {service: {nodePort: -1}}":                             "/restAPI/service/nodePort",
		"networkPolicy: {apiServerPorts: []}":                            "/networkPolicy/apiServerPorts",
		"networkPolicy: {limitEgress: true, apiServerPorts: null}":       "missing property 'apiServerPorts'",
		"networkPolicy: {enabled: false, limitEgress: true}":             "/networkPolicy/enabled",
		"global: {registry: '[mirror]:5000'}":                            "/global/registry",
		"image: {repository: 'fd00::1/gcu'}":                             "/image/repository",
		"{global: {registry: '[fd00::1]'}, gcuResource: {deploy: true}}": "a GcuResource takes no repository at an IPv6 address",
	} {
		for helm, render := range map[string]func(*testing.T, string) ([]object, error){"Helm 3": tryRender, "Helm 4": tryRender4} {
			if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s: got %v, want %q", helm, values, err, want)
			}
		}
	}
}

// TestRightValuesAreAccepted: registries of all forms, the specs of all examples of grs, and null in the place of every field.
func TestRightValuesAreAccepted(t *testing.T) {
	accepted := []string{"restAPI: {service: {nodePort: 0}}", "restAPI: {service: {nodePort: 80}}", "autoscaling: {enabled: true, minReplicas: 2, maxReplicas: 2}",
		"gcuResource: {deploy: true, spec: }"}
	for _, registry := range []string{"mirror", "mirror:5000", "10.0.0.1:5000", "mirror.example.com/proxy/a_b-c", "Mirror.example.com", "'[fd00::1]'", "'[FD00::1]:5000/gcu'"} {
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
				for depth := range 8 {
					values, err := yaml.Marshal(map[string]any{"gcuResource": map[string]any{"deploy": true, "spec": nulled(o["spec"], depth)}})
					check(t, err)
					accepted = append(accepted, string(values))
				}
			}
		}
	}
	slices.Sort(accepted)
	for _, values := range slices.Compact(accepted) {
		for helm, render := range map[string]func(*testing.T, string) ([]object, error){"Helm 3": tryRender, "Helm 4": tryRender4} {
			if _, err := render(t, values); err != nil {
				t.Errorf("%s, %s: %v", helm, values, err)
			}
		}
	}
}

// nulled returns a value with null for all that is depth levels below.
func nulled(value any, depth int) any {
	if depth == 0 {
		return nil
	}
	switch v := value.(type) {
	case map[string]any:
		to := map[string]any{}
		for key := range v {
			to[key] = nulled(v[key], depth-1)
		}
		return to
	case []any:
		to := []any{}
		for _, item := range v {
			to = append(to, nulled(item, depth-1))
		}
		return to
	}
	return value
}

// TestNullDropsAFieldOfTheExample: of the gr that the chart creates.
func TestNullDropsAFieldOfTheExample(t *testing.T) {
	values := "gcuResource: {deploy: true, spec: {exporter: {nodeSelector: null}, toolkit: }}"
	for helm, render := range map[string]func(*testing.T, string) ([]object, error){"Helm 3": tryRender, "Helm 4": tryRender4} {
		objects, err := render(t, values)
		check(t, err)
		data := byName(t, objects)["ConfigMap kube-system/gcu-operator-default-resource"]["data"].(map[string]any)
		gr := parse(t, data["gcu-resource.json"].(string))[0]
		spec := gr["spec"].(map[string]any)
		exporter := spec["exporter"].(map[string]any)
		if spec["toolkit"] != nil || exporter["nodeSelector"] != nil || exporter["image"] == nil || spec["gfd"] == nil {
			t.Errorf("%s: %v", helm, spec)
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
