package handbook

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	const text = "# Page\n\n```sh\nfirst    # why\n\n# not a heading\na |\n  b\n```\n\n### Part\n\n```yaml\nkey: value\n```\n\n```sh\nsecond\n```\n\ntext\n\n```sh\nthird \\\n  more\n```\n"
	want := []Section{
		{Page: "a.md", Title: "Page", Blocks: []Block{{{Text: "first    # why"}, {Text: "a |\n  b"}}}},
		{Page: "a.md", Title: "Part", Blocks: []Block{{{Text: "second"}}, {{Text: "third \\\n  more"}}}},
	}
	if diff := cmp.Diff(want, parse("a.md", text)); diff != "" {
		t.Errorf("sections (-want +got):\n%s", diff)
	}
}

func TestToRunLeavesOutWhatIsNotRun(t *testing.T) {
	s := Section{Blocks: []Block{{{Text: "a"}, {Text: "b", NotRun: "why"}}, {{Text: "c", NotRun: "why"}}, {{Text: "d"}}}}
	if diff := cmp.Diff([][]string{{"a"}, {"d"}}, s.ToRun()); diff != "" {
		t.Errorf("blocks (-want +got):\n%s", diff)
	}
}

func TestFill(t *testing.T) {
	names := map[string]string{"NODE": "node-1", "NAME": "NODE", "NAMESPACE": "ns", "/run/a.sock": "/tmp/b.sock", "my-gr": "gr-7"}
	for command, want := range map[string]string{
		"retry:NODE_driver_verify NODE":  "retry:node-1_driver_verify node-1",
		"-n NAMESPACE NAME":              "-n ns NODE",
		"NODES XNODE":                    "NODES XNODE",
		"curl --unix-socket /run/a.sock": "curl --unix-socket /tmp/b.sock",
		"gr/my-gr my-grs":                "gr/gr-7 my-grs",
	} {
		if got := Fill(command, names); got != want {
			t.Errorf("%q becomes %q, want %q", command, got, want)
		}
	}
}
