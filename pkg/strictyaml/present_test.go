package strictyaml

import "testing"

func TestAnObjectIsRequiredWithoutNulls(t *testing.T) {
	for text, want := range map[string]string{
		"spec: {}":                             "",
		"spec: {a: {b: [1, '', false]}}":       "",
		"other: null\nspec: {a: 1}":            "",
		"other: 1":                             "it has no spec, or one that is not an object",
		"spec:":                                "it has no spec, or one that is not an object",
		"spec: []":                             "it has no spec, or one that is not an object",
		"spec: {b: {c: ~}, a: 1}":              "spec.b.c is null: give it a value, or remove it",
		"spec:\n  b:\n  a:":                    "spec.a is null: give it a value, or remove it",
		"spec: {a: [{b: 1}, {b: 2, c: null}]}": "spec.a[1].c is null: give it a value, or remove it",
	} {
		document, err := Document([]byte(text))
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		got := ""
		if err := RequireObject(document, "spec"); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: error %q, want %q", text, got, want)
		}
	}
}
