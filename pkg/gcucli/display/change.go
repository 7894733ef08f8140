package display

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// Change is a difference in one field of a spec.
type Change struct {
	// Field is its path below spec.
	Field string `json:"field"`
	// From and To are JSON values; absent if the field is unset.
	From any `json:"from,omitempty"`
	To   any `json:"to,omitempty"`
}

// ChangesOf returns the differences of two specs by field, sorted. An error means that one
// cannot be encoded.
func ChangesOf(from, to *topsv1.GcuResourceSpec) ([]Change, error) {
	var trees [2]any
	for i, spec := range []*topsv1.GcuResourceSpec{from, to} {
		data, err := json.Marshal(spec)
		if err == nil {
			err = json.Unmarshal(data, &trees[i])
		}
		if err != nil {
			return nil, fmt.Errorf("comparing specs: %w", err)
		}
	}
	list := []Change{}
	compare("", trees[0], trees[1], &list)
	return list, nil
}

// compare appends differences. Elements of lists that have names, such as env, are matched
// by name; a value that only one side has is one change.
func compare(path string, from, to any, list *[]Change) {
	a, aok := fields(from)
	b, bok := fields(to)
	if !aok || !bok {
		if written(from) != written(to) {
			*list = append(*list, Change{Field: path, From: from, To: to})
		}
		return
	}
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		compare(strings.TrimPrefix(path+"."+k, "."), a[k], b[k], list)
	}
}

// fields returns those of an object, or the elements of a list by name.
func fields(v any) (map[string]any, bool) {
	if m, ok := v.(map[string]any); ok {
		return m, true
	}
	l, ok := v.([]any)
	if !ok || len(l) == 0 {
		return nil, false
	}
	named := map[string]any{}
	for _, e := range l {
		m, isMap := e.(map[string]any)
		name, hasName := m["name"].(string)
		if !isMap || !hasName {
			return nil, false
		}
		named[name] = m
	}
	return named, true
}

// written returns a value in JSON, "unset" for none.
func written(v any) string {
	if v == nil {
		return "unset"
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(data)
}

// String returns the change as text: driver.version: 1.0 -> 1.1.
func (c Change) String() string { return c.Field + ": " + bare(c.From) + " -> " + bare(c.To) }

// bare is written without the quotes of strings.
func bare(v any) string {
	if text, ok := v.(string); ok && text != "" {
		return text
	}
	return written(v)
}

// ChangesText has one line per change.
func ChangesText(changes []Change, indent string) string {
	var b strings.Builder
	for _, c := range changes {
		b.WriteString(indent + plaintext.Line(c.String()) + "\n")
	}
	return b.String()
}
