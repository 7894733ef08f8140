// Package strictyaml reads what people and programs hand over as one object, and loses nothing of it: a field that is
// not known or is there twice, a second document and (but in a Document) an alias are errors.
package strictyaml

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	yamlv3 "go.yaml.in/yaml/v3"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Unmarshal reads one document, JSON or YAML. Aliases are errors because with them a small text can expand without
// bound.
func Unmarshal(text []byte, into any) error {
	if !json.Valid(text) {
		document, err := parse(text)
		if err != nil {
			return err
		}
		if aliased(document) {
			return errors.New("it has YAML anchors or aliases, which are not read: write the values out")
		}
		if text, err = toJSON(text); err != nil {
			return err
		}
	}
	return UnmarshalJSON(text, into)
}

// Document reads one document, JSON or YAML, of a file that kubectl reads too. Aliases and merge keys are expanded as
// kubectl expands them. If there is nothing but comments, or null, the result is empty.
func Document(text []byte) (map[string]any, error) {
	if !json.Valid(text) {
		_, err := parse(text)
		if errors.Is(err, io.EOF) {
			return map[string]any{}, nil
		}
		if err != nil {
			return nil, err
		}
		if text, err = toJSON(text); err != nil {
			return nil, err
		}
	}
	content := map[string]any{}
	if isNull(text) {
		return content, nil
	}
	return content, UnmarshalJSON(text, &content)
}

// parse returns the one YAML document of a text, without a field twice; io.EOF if there is none.
func parse(text []byte) (*yamlv3.Node, error) {
	decoder := yamlv3.NewDecoder(bytes.NewReader(text))
	var document, more yamlv3.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("it is not YAML: %w", err)
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one YAML document: write one")
	}
	return &document, repeated(&document)
}

// toJSON converts YAML as kubectl does. Its strict sibling refuses a field beside a merge key that overrides what is
// merged.
func toJSON(text []byte) ([]byte, error) {
	converted, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("it is not YAML: %w", err)
	}
	return converted, nil
}

// repeated returns an error if a mapping has a field twice. A merge key is no field.
func repeated(node *yamlv3.Node) error {
	lines := map[string]int{}
	for i, child := range node.Content {
		if node.Kind == yamlv3.MappingNode && i%2 == 0 && child.ShortTag() != "!!merge" {
			name := fieldName(child)
			if line, twice := lines[name]; twice {
				return fmt.Errorf("line %d: the field %q is already in line %d", child.Line, name, line)
			}
			lines[name] = child.Line
		}
		if err := repeated(child); err != nil {
			return err
		}
	}
	return nil
}

// fieldName returns the name that a key has in JSON: 0x1 and "1" are one. Mappings and lists, which toJSON refuses, have
// none.
func fieldName(key *yamlv3.Node) string {
	if key.Kind == yamlv3.AliasNode {
		key = key.Alias
	}
	var value any
	if key.Kind != yamlv3.ScalarNode || key.Decode(&value) != nil {
		return key.Value
	}
	return fmt.Sprint(value)
}

func aliased(node *yamlv3.Node) bool {
	return node.Kind == yamlv3.AliasNode || node.Anchor != "" || slices.ContainsFunc(node.Content, aliased)
}

// UnmarshalJSON reads JSON with field names exactly as documented. Null, which would change nothing, is an error.
func UnmarshalJSON(data []byte, into any) error {
	if isNull(data) {
		return errors.New("it is null")
	}
	doubtful, err := strictjson.UnmarshalStrict(data, into)
	if err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	if len(doubtful) > 0 {
		return fmt.Errorf("it is refused: %w", errors.Join(doubtful[:min(len(doubtful), 5)]...))
	}
	return nil
}

func isNull(data []byte) bool {
	return string(bytes.TrimSpace(data)) == "null"
}
