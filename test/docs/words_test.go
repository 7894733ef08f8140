package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unidiomatic are phrases that a reader has to translate, with the usual ones.
var unidiomatic = [][2]string{
	{"tells whether", "reports whether"},
	{"tells the version", "prints the versions"},
	{"has to be somebody", "must be authenticated"},
	{"everybody who", "anyone who"},
	{"who reaches the port", "who can reach the port"},
	{"nobody has signed", "self-signed"},
	{"asking twice is asking once", "requests are idempotent"},
	{"winds the operation", "aborts the operation"},
	{"ends uncordoned", "is uncordoned"},
	{"forgives the failure", "clears the failure count"},
	{"where the person at a node", "only after a request on that node"},
	{"leaves a node alone", "excludes a node"},
	{"the world is ahead", "stale cache"},
	{"agent is at it", "in progress on the node agent"},
	{"wants it left alone", "is held"},
	{"is told the states", "handles watch updates"},
	{"is no news", "emits no event"},
	{"passes by itself", "is transient"},
	{"the begin of", "the start of"},
	{"get nowhere", "are rejected"},
	{"in vain", "futile, without effect"},
}

// TestTheWordsAreTheUsualOnes: comments, messages and documents have none of these phrases.
func TestTheWordsAreTheUsualOnes(t *testing.T) {
	for _, name := range filesOf(t, ".go", ".md", ".yaml", ".html") {
		if filepath.Base(name) == "words_test.go" {
			continue
		}
		words := slices.DeleteFunc(strings.Fields(strings.ToLower(read(t, name))), func(word string) bool { return word == "//" || word == "#" }) // a phrase may continue in the next line
		text := strings.Join(words, " ")
		for _, p := range unidiomatic {
			if strings.Contains(text, p[0]) {
				t.Errorf("%s says %q: write %q, or similar", name, p[0], p[1])
			}
		}
	}
}
