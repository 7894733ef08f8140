package strictyaml

import (
	"fmt"
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
		`{"name": "\u0061"}`:        "",
		"<<: {name: b}\nname: a":    "",
		"name: a\nname: b":          `line 2: the field "name" is already in line 1`,
		`{"name": "a", "name":"b"}`: `duplicate field "name"`,
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

func TestADocumentIsReadAsKubectlDoesButForFieldsTwice(t *testing.T) {
	const anchors = "a: &a {x: 1, w: 2}\nb: &b {x: 3, z: 4}\n"
	for name, test := range map[string]struct{ text, want, says string }{
		"an override of what is merged":          {anchors + "c: {<<: *a, x: 5}", "map[w:2 x:5]", ""},
		"merged mappings that share a field":     {anchors + "c: {<<: [*a, *b]}", "map[w:2 x:1 z:4]", ""},
		"two merge keys":                         {anchors + "c: {<<: *a, <<: *b}", "map[w:2 x:3 z:4]", ""},
		"a merge key last":                       {anchors + "c: {x: 5, <<: *a}", "map[w:2 x:1]", ""},
		"a merge in a merge":                     {anchors + "d: &d {<<: *a, x: 5}\nc: {<<: *d, w: 6}", "map[w:6 x:5]", ""},
		"an alias":                               {anchors + "c: *a", "map[w:2 x:1]", ""},
		"a slash that is escaped":                {`{"c": "mirror.example.com\/gcu"}`, "mirror.example.com/gcu", ""},
		"a surrogate pair":                       {`{"c": "\ud83d\ude00"}`, "\U0001f600", ""},
		"tabs":                                   {"{\n\t\"c\": 1\n}", "1", ""},
		"an end marker":                          {"c: 1\n...\n", "1", ""},
		"a comment":                              {"# nothing", "<nil>", ""},
		"null":                                   {"null", "<nil>", ""},
		"nothing":                                {"", "<nil>", ""},
		"a field twice beside a merge":           {anchors + "c: {<<: *a, x: 5, x: 6}", "", `"x" is already in line 3`},
		"a field twice in what is merged":        {"a: &a {x: 1, x: 2}\nc: {<<: *a}", "", `"x" is already in line 1`},
		"a field twice in a list":                {"c: [{x: 1, x: 2}]", "", `"x" is already in line 1`},
		"a field in quotes and without":          {"c: 1\n'c': 2", "", `line 2: the field "c" is already in line 1`},
		"numbers that are one field":             {"1: a\n0x1: b\n", "", `"1" is already`},
		"an alias as a field":                    {"&a c: 1\n*a : 2", "", `"c" is already`},
		"a field named << twice":                 {"'<<': 1\n'<<': 2", "", `"<<" is already`},
		"a field twice in JSON":                  {`{"c": {"x": 1, "\u0078": 2}}`, "", `duplicate field "c.x"`},
		"JSON after JSON":                        {"{\"c\": 1}\n{\"c\": 2}", "", "more than one YAML document"},
		"an alias of nothing":                    {"c: *x", "", "not YAML"},
		"a list":                                 {"[1]", "", "cannot unmarshal array"},
		"aliases that expand without bound":      {bomb(), "", "excessive aliasing"},
		"a mapping as a field, which JSON lacks": {"? {x: 1}\n: c", "", "invalid map key"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := Document([]byte(test.text))
			if test.says == "" && (err != nil || fmt.Sprint(found["c"]) != test.want) || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
				t.Errorf("%v, %v, want %q %q", found, err, test.want, test.says)
			}
		})
	}
}

func bomb() string {
	text := "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
	for i := range 9 {
		text += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	return text
}
