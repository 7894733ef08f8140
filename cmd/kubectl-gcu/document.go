package main

import (
	"bufio"
	"errors"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/topscloud"
	"github.com/topsops/gcu-operator/pkg/strictyaml"
)

// readDocument reads a file with exactly one object and no field twice; - means standard input.
func readDocument(in io.Reader, file string) (*unstructured.Unstructured, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, usageError("%w", err)
		}
		defer f.Close()
		in = f
	}
	var found *unstructured.Unstructured
	for documents := yaml.NewYAMLReader(bufio.NewReader(in)); ; {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var content map[string]any
		if err == nil {
			content, err = strictyaml.Document(text)
		}
		if err != nil {
			return nil, usageError("reading %s: %w", file, err)
		}
		if len(content) == 0 {
			continue
		}
		if found != nil {
			return nil, usageError("%s contains more than one object: it must contain exactly one GcuResource", file)
		}
		found = &unstructured.Unstructured{Object: content}
	}
	if found == nil {
		return nil, usageError("%s holds no object", file)
	}
	return found, nil
}

// readResource reads a file with a gr that has a spec, without nulls.
func readResource(in io.Reader, file string) (*unstructured.Unstructured, error) {
	found, err := readDocument(in, file)
	if err != nil {
		return nil, err
	}
	kind := found.GroupVersionKind()
	if kind.Group == topscloud.Group {
		return nil, usageError("%s is of %s: kubectl gcu import %s translates it", file, found.GetAPIVersion(), file)
	}
	if kind != topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind) {
		return nil, usageError("%s holds a %s of %s, not a %s of %s", file, kind.Kind, found.GetAPIVersion(), topsv1.GcuResourceKind, topsv1.GroupVersion)
	}
	if found.GetName() == "" {
		return nil, usageError("%s: metadata.name is missing", file)
	}
	if err := strictyaml.RequireObject(found.Object, "spec"); err != nil {
		return nil, usageError("%s: %w", file, err)
	}
	return found, nil
}
