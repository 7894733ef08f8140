package main

import (
	"strings"
	"testing"
)

func TestADocumentIsOneObjectWithoutAFieldTwice(t *testing.T) {
	for name, test := range map[string]struct{ text, says string }{
		"YAML":                     {"a: 1", ""},
		"between markers":          {"---\n# nothing\n---\na: 1\n---\n", ""},
		"JSON":                     {"{\"a\": 1}\n", ""},
		"JSON of other programs":   {`{"a": "mirror.example.com\/gcu \ud83d\ude00"}`, ""},
		"a merge and an override":  {"b: &b {c: 1, d: 2}\na: {<<: *b, c: 3}", ""},
		"merges with one field":    {"b: &b {c: 1}\nd: &d {c: 2}\na: {<<: [*b, *d]}", ""},
		"a field twice in YAML":    {"a: 1\na: 2", "already in line 1"},
		"a field twice in JSON":    {`{"a": {"b": 1, "b": 2}}`, "duplicate field"},
		"two objects in JSON":      {"{\"a\": 1}\n{\"a\": 2}\n", "more than one"},
		"two objects":              {"a: 1\n---\na: 1", "more than one object"},
		"nothing":                  {"---\n", "no object"},
		"what is not of this form": {"[1]", "reading -"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := readDocument(strings.NewReader(test.text), "-")
			if test.says == "" && (err != nil || found.Object["a"] == nil) || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("%v, %v, want %q", found, err, test.says)
			}
		})
	}
}
