package servedschema

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Document is an OpenAPI v3 document of one group and version, as far as fields are concerned.
type Document struct {
	Components struct {
		Schemas map[string]*Schema `json:"schemas"`
	} `json:"components"`
}

// Schema is the schema of one value. CRDs have the same fields.
type Schema struct {
	Properties map[string]*Schema `json:"properties"`
	Items      *Schema            `json:"items"`
	// AdditionalProperties is a schema or a boolean.
	AdditionalProperties json.RawMessage `json:"additionalProperties"`
	// PreservesUnknown: nothing below is pruned.
	PreservesUnknown bool                      `json:"x-kubernetes-preserve-unknown-fields"`
	Kinds            []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
}

// Read parses a document.
func Read(text []byte) (*Document, error) {
	var d Document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("parsing an OpenAPI document: %w", err)
	}
	return &d, nil
}

// Kind returns the schema of a kind, nil if the document has none.
func (d *Document) Kind(kind schema.GroupVersionKind) *Schema {
	for _, s := range d.Components.Schemas {
		for _, k := range s.Kinds {
			if k == kind {
				return s
			}
		}
	}
	return nil
}

// property returns the schema of a field, nil if there is none.
func (s *Schema) property(name string) *Schema {
	if p, ok := s.Properties[name]; ok {
		return p
	}
	return s.values()
}

// values returns the schema of the values of a map, nil if it is none.
func (s *Schema) values() *Schema {
	text := strings.TrimSpace(string(s.AdditionalProperties))
	switch text {
	case "", "null", "false":
		return nil
	case "true":
		return &Schema{PreservesUnknown: true}
	}
	var of Schema
	if json.Unmarshal(s.AdditionalProperties, &of) != nil {
		return nil
	}
	return &of
}
