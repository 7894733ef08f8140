package dashboard

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// sources are the files of constants that the page shows: all whose names begin with one of these prefixes.
var sources = []struct {
	file     string
	prefixes []string
}{
	{"api/v1/reasons.go", []string{"Reason"}},
	{"api/v1/gcuresource_types.go", []string{"Phase"}},
	{"api/v1/nodeoperation_types.go", []string{"Operation"}},
	{"pkg/daemonset/settingserror.go", []string{"Reason"}},
	{"api/v1/nodeupgrade_types.go", []string{"Task"}},
	{"pkg/daemonupdater/report/pinrequests.go", []string{"reason"}},
	{"pkg/daemonupdater/report/requests.go", []string{"reason"}},
	{"pkg/daemonupdater/rollout/reason.go", []string{"Reason"}},
	{"pkg/gcucli/display/advice.go", []string{"Reason"}},
	{"pkg/gcucli/display/outcome.go", []string{"Done", "Working", "Waiting", "Stopped"}},
	{"pkg/gcucli/display/wave.go", []string{"Wave"}},
	{"pkg/gcuresource/revision/revision.go", []string{"Reason"}},
	{"pkg/gcuresource/state/failure.go", []string{"Reason"}},
	{"pkg/gcuresource/status/conditions.go", []string{"Reason"}},
	{"pkg/gcuresource/status/events.go", []string{"Reason"}},
	{"pkg/gcuresource/status/upgrade.go", []string{"Reason"}},
	{"pkg/nodeupgrade/operation/events.go", []string{"event"}},
	{"pkg/nodeupgrade/operation/reasons.go", []string{"Reason"}},
}

// TestEveryFixedWordHasALabel: in every language but English.
func TestEveryFixedWordHasALabel(t *testing.T) {
	for _, source := range sources {
		words := wordsIn(t, filepath.Join("..", "..", "..", source.file), source.prefixes)
		if len(words) == 0 {
			t.Errorf("%s has no words", source.file)
		}
		for _, word := range words {
			for _, language := range languages[1:] {
				if texts[language].Label(word).English {
					t.Errorf("%s: %q has no label in %s", source.file, word, language)
				}
			}
		}
	}
	for _, language := range languages[1:] {
		for word, text := range labels[language] {
			if text == "" || texts[languages[0]].Label(word) != (label{word, word, false}) {
				t.Errorf("%q is %q in %s, and has a label in English", word, text, language)
			}
		}
	}
	if unknown := texts["zh"].Label("Unheard"); unknown != (label{"Unheard", "Unheard", true}) {
		t.Errorf("a word without a label is %+v", unknown)
	}
}

// wordsIn returns the texts of the constants in a file whose names have one of the prefixes.
func wordsIn(t *testing.T, path string, prefixes []string) (words []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	check(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is {
			return true
		}
		for i, name := range spec.Names {
			if i >= len(spec.Values) || !slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name.Name, p) }) {
				continue
			}
			if value, is := spec.Values[i].(*ast.BasicLit); is && value.Kind == token.STRING {
				word, err := strconv.Unquote(value.Value)
				check(t, err)
				words = append(words, word)
			}
		}
		return true
	})
	return words
}
