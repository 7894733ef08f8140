package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// config is the folder of the manifests, from the root of the project.
const config = "config"

// folder is a folder of config/ that is part of the chart.
type folder struct {
	name string
	// when is the condition of the values that its objects depend on; empty for always.
	when string
	// edits are those of its files, by their names; those of * are of every file.
	edits map[string][]edit
}

// edit replaces a piece of a manifest.
type edit struct {
	old, new string
	// times is how often old is there; 0 means once, -1 means once or more.
	times int
}

// resources returns the files that the kustomization of the folder names, and its namespace.
func (f folder) resources(root string) ([]string, string, error) {
	path := filepath.Join(root, config, f.name, "kustomization.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	var kustomization struct {
		Namespace string   `json:"namespace"`
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(text, &kustomization); err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", path, err)
	}
	return kustomization.Resources, kustomization.Namespace, nil
}

// template makes a template of a manifest.
func (f folder) template(name, text, namespace string) (string, error) {
	if strings.Contains(text, "{{") {
		return "", fmt.Errorf("it contains {{, which a template would have to escape")
	}
	documents := strings.Split(strings.TrimPrefix(text, "---\n"), "\n---\n")
	for i, document := range documents {
		documents[i] = strings.TrimSuffix(inNamespace(document, namespace), "\n")
	}
	text = strings.Join(documents, "\n---\n") + "\n"
	for _, e := range slices.Concat(f.edits["*"], f.edits[name]) {
		var err error
		if text, err = e.apply(text); err != nil {
			return "", err
		}
	}
	if f.when != "" {
		text = "{{- if " + f.when + " }}\n" + text + "{{- end }}\n"
	}
	return text, nil
}

func (e edit) apply(text string) (string, error) {
	found, want := strings.Count(text, e.old), max(e.times, 1)
	if found != want && (e.times >= 0 || found == 0) {
		return "", fmt.Errorf("%q is there %d times, and an edit of the chart expects %d", e.old, found, want)
	}
	return strings.ReplaceAll(text, e.old, e.new), nil
}

// namespaced are the kinds of config/ that are in a namespace.
var namespaced = []string{"DaemonSet", "Deployment", "NetworkPolicy", "Role", "RoleBinding", "Service", "ServiceAccount", "ServiceMonitor", "PodMonitor", "PrometheusRule"}

// inNamespace adds the namespace of a kustomization to an object that has none.
func inNamespace(document, namespace string) string {
	var object struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	if yaml.Unmarshal([]byte(document), &object) != nil || namespace == "" || object.Metadata.Namespace != "" || !slices.Contains(namespaced, object.Kind) {
		return document
	}
	name := "\n  name: " + object.Metadata.Name + "\n"
	return strings.Replace(document+"\n", name, name+"  namespace: "+namespace+"\n", 1)
}
