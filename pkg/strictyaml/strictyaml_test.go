package strictyaml

import (
	"strings"
	"testing"
)

func TestNothingOfAnObjectIsLost(t *testing.T) {
	type object struct {
		Name string `json:"name"`
	}
	for text, want := range map[string]string{
		"name: a":                   "",
		"---\nname: a":              "",
		`{"name": "a"}`:             "",
		"name: a\n---\nname: b":     "more than one YAML document",
		`{"name": "a"}{"name":"b"}`: "more than one YAML document",
		"name: a\nname: b":          "already",
		"Name: a":                   `unknown field "Name"`,
		"name: &a b":                "anchors or aliases",
		"null":                      "it is null",
		"":                          "not YAML",
		"name: [":                   "not YAML",
		"name: [a]":                 "cannot unmarshal array",
	} {
		var o object
		err := Unmarshal([]byte(text), &o)
		if want == "" && (err != nil || o.Name != "a") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %+v, %v, want %q", text, o, err, want)
		}
	}
}
