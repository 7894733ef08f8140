package plaintext

import (
	"bytes"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
)

// JSON returns a value as indented JSON without control characters. What only HTML needs escaped is
// not: <, > and &.
func JSON(value any) (string, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return "", fmt.Errorf("encoding the output: %w", err)
	}
	return Text(out.String()), nil
}

// YAML returns a value as YAML without control characters. If strings need escapes that YAML does
// not make, it is JSON: that is YAML too, and all strings are quoted in it, so that what is escaped
// is the same string. Without the escapes sigs.k8s.io/yaml fails on some characters.
func YAML(value any) (string, error) {
	document, err := JSON(value)
	if err != nil {
		return "", err
	}
	data, err := yaml.JSONToYAML([]byte(document))
	if err != nil {
		return "", fmt.Errorf("encoding the output: %w", err)
	}
	if out := string(data); Text(out) == out {
		return out, nil
	}
	return document, nil
}
