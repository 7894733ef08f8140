package monitoring

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// stateConfig is the configuration of kube-state-metrics for custom resources, as far as it is used here. Its own code cannot be
// imported: the Go module proxy does not have the module.
type stateConfig struct {
	Kind string `json:"kind"`
	Spec struct {
		Resources []stateResource `json:"resources"`
	} `json:"spec"`
}

type stateResource struct {
	GroupVersionKind struct{ Group, Version, Kind string } `json:"groupVersionKind"`
	MetricNamePrefix string                                `json:"metricNamePrefix"`
	ErrorLogV        int                                   `json:"errorLogV"`
	LabelsFromPath   map[string][]string                   `json:"labelsFromPath"`
	Metrics          []stateMetric                         `json:"metrics"`
}

type stateMetric struct {
	Name           string              `json:"name"`
	Help           string              `json:"help"`
	LabelsFromPath map[string][]string `json:"labelsFromPath"`
	Each           struct {
		Type     string     `json:"type"`
		Gauge    *stateEach `json:"gauge"`
		Info     *stateEach `json:"info"`
		StateSet *stateEach `json:"stateSet"`
	} `json:"each"`
}

type stateEach struct {
	Path           []string            `json:"path"`
	ValueFrom      []string            `json:"valueFrom"`
	LabelsFromPath map[string][]string `json:"labelsFromPath"`
	NilIsZero      bool                `json:"nilIsZero"`
	LabelName      string              `json:"labelName"`
	List           []string            `json:"list"`
}

// schema is that of a field, with where it is.
type schema struct {
	*apiextensionsv1.JSONSchemaProps
	path string
}

// at returns the schema of a path, nil if there is none. Labels and annotations are strings.
func (s schema) at(path []string) (schema, error) {
	for i, name := range path {
		if s.path == ".metadata" && (name == "annotations" || name == "labels") && i+2 == len(path) || s.path == ".metadata" && i+1 == len(path) {
			return schema{&apiextensionsv1.JSONSchemaProps{Type: "string"}, s.path + "." + name}, nil
		}
		next, ok := s.Properties[name]
		if !ok {
			return s, fmt.Errorf("%s has no %s", s.path, name)
		}
		s = schema{&next, s.path + "." + name}
	}
	return s, nil
}

// element returns the schema of the elements of a list, or the schema itself.
func (s schema) element() schema {
	if s.Type == "array" {
		return schema{s.Items.Schema, s.path + "[]"}
	}
	return s
}

func (s schema) isScalar() bool { return s.Type != "object" && s.Type != "array" }

// served returns the schema of a kind in config/crd.
func served(t *testing.T, kind string) schema {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "topsops.enflame.com_"+strings.ToLower(kind)+"s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	return schema{crd.Spec.Versions[0].Schema.OpenAPIV3Schema, ""}
}

func readStateConfig(t *testing.T) stateConfig {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "monitoring", "kube-state-metrics", "custom_resource_state.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config stateConfig
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		t.Fatal(err)
	}
	return config
}

// Every path of the configuration is a field that the CRDs serve, of a type that kube-state-metrics makes a value or a
// label of.
func TestStateOfNodesIsInTheServedFields(t *testing.T) {
	config := readStateConfig(t)
	if config.Kind != "CustomResourceStateMetrics" || len(config.Spec.Resources) == 0 {
		t.Fatalf("kind %q with %d resources", config.Kind, len(config.Spec.Resources))
	}
	for _, r := range config.Spec.Resources {
		root := served(t, r.GroupVersionKind.Kind)
		for _, m := range r.Metrics {
			for _, problem := range m.problems(root, r.LabelsFromPath) {
				t.Errorf("%s: %s", m.Name, problem)
			}
		}
	}
}

// problems returns what is wrong with a metric of a kind.
func (m *stateMetric) problems(root schema, labels map[string][]string) (list []string) {
	each := map[string]*stateEach{"Gauge": m.Each.Gauge, "Info": m.Each.Info, "StateSet": m.Each.StateSet}[m.Each.Type]
	if each == nil {
		return []string{"type " + m.Each.Type + " has no settings"}
	}
	at, err := root.at(each.Path)
	if err != nil {
		return []string{err.Error()}
	}
	at = at.element()
	value, err := at.at(each.ValueFrom)
	if err != nil {
		list = append(list, err.Error())
	}
	switch {
	case m.Each.Type == "Info" && !at.isScalar():
		list = append(list, at.path+" is no scalar: of an object there would be a series for each field")
	case m.Each.Type == "Gauge" && value.Type != "integer" && value.Type != "boolean" && value.Format != "date-time":
		list = append(list, value.path+" is no number, boolean or time")
	case m.Each.Type == "StateSet":
		var states []string
		for _, e := range value.Enum {
			states = append(states, strings.Trim(string(e.Raw), `"`))
		}
		if slices.Sort(states); !slices.Equal(states, slices.Sorted(slices.Values(each.List))) {
			list = append(list, fmt.Sprintf("the states are %v, those of %s are %v", each.List, value.path, states))
		}
	}
	for _, l := range []struct {
		from  schema
		paths map[string][]string
	}{{root, labels}, {root, m.LabelsFromPath}, {at, each.LabelsFromPath}} {
		for label, path := range l.paths {
			if field, err := l.from.at(path); err != nil || !field.isScalar() {
				list = append(list, fmt.Sprintf("label %s is no scalar (%v)", label, err))
			}
		}
	}
	return list
}

func TestNamesOfTheStateOfNodesAreGood(t *testing.T) {
	var page strings.Builder
	for _, r := range readStateConfig(t).Spec.Resources {
		for _, m := range r.Metrics {
			name := r.MetricNamePrefix + "_" + m.Name
			fmt.Fprintf(&page, "# HELP %s %s\n# TYPE %s gauge\n%s 1\n", name, m.Help, name, name)
		}
	}
	problems, err := promlint.New(strings.NewReader(page.String())).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// A test that cannot fail is a defect.
func TestWrongPathsAreFound(t *testing.T) {
	root := served(t, "NodeUpgrade")
	gauge := func(path ...string) stateMetric {
		m := stateMetric{}
		m.Each.Type, m.Each.Gauge = "Gauge", &stateEach{Path: path}
		return m
	}
	info := stateMetric{}
	info.Each.Type, info.Each.Info = "Info", &stateEach{Path: []string{"status", "operation"}}
	states := stateMetric{}
	states.Each.Type, states.Each.StateSet = "StateSet", &stateEach{Path: []string{"status", "operation"}, ValueFrom: []string{"phase"}, List: []string{"Running"}}
	label := gauge("status", "operation", "since")
	label.LabelsFromPath = map[string][]string{"a": {"status", "operation", "nothing"}}
	for name, m := range map[string]stateMetric{"no such field": gauge("status", "nothing"), "no number": gauge("status", "operation", "id"),
		"an object": info, "other states": states, "a label": label, "no settings": {}} {
		if len(m.problems(root, nil)) == 0 {
			t.Errorf("%s is not found", name)
		}
	}
	good := gauge("status", "operation", "since")
	if problems := good.problems(root, map[string][]string{"node": {"metadata", "name"}}); len(problems) > 0 {
		t.Errorf("what is right has problems: %v", problems)
	}
}
