// Package strictyaml reads what people and programs hand over as one object, and loses nothing of it: a field that is
// not known or is there twice, a second document and an alias are errors.
package strictyaml

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// Unmarshal reads one document, JSON or YAML. Aliases are errors because with them a small text can expand without
// bound.
func Unmarshal(text []byte, into any) error {
	if !json.Valid(text) {
		var err error
		if text, err = toJSON(text); err != nil {
			return err
		}
	}
	return UnmarshalJSON(text, into)
}

// toJSON converts one YAML document.
func toJSON(text []byte) ([]byte, error) {
	decoder := yamlv3.NewDecoder(strings.NewReader(string(text)))
	var document, more yamlv3.Node
	if err := decoder.Decode(&document); err != nil {
		return nil, fmt.Errorf("it is not YAML: %w", err)
	}
	if aliased(&document) {
		return nil, errors.New("it has YAML anchors or aliases, which are not read: write the values out")
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one YAML document: write one")
	}
	converted, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, fmt.Errorf("it is not YAML: %w", err)
	}
	return converted, nil
}

func aliased(node *yamlv3.Node) bool {
	return node.Kind == yamlv3.AliasNode || node.Anchor != "" || slices.ContainsFunc(node.Content, aliased)
}

// UnmarshalJSON reads JSON with field names exactly as documented. Null, which would change nothing, is an error.
func UnmarshalJSON(data []byte, into any) error {
	if strings.TrimSpace(string(data)) == "null" {
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
