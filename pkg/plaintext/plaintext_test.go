package plaintext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"
)

func TestEscapes(t *testing.T) {
	for name, tt := range map[string]struct{ in, text, line string }{
		"words stay":                        {"driver 2.0: 重启\u3000é 🙂", "driver 2.0: 重启\u3000é 🙂", "driver 2.0: 重启\u3000é 🙂"},
		"a line end is kept in texts only":  {"a\n\tb", "a\n\tb", `a\n\tb`},
		"a carriage return":                 {"a\rb", `a\rb`, `a\rb`},
		"sequences of terminals":            {"\x1b[2J\x1b]0;owned\x07", `\u001b[2J\u001b]0;owned\u0007`, `\u001b[2J\u001b]0;owned\u0007`},
		"C1 and DEL":                        {"\u009b31m\x7f", `\u009b31m\u007f`, `\u009b31m\u007f`},
		"direction of writing":              {"\u202egpj\u2066", `\u202egpj\u2066`, `\u202egpj\u2066`},
		"other line ends and the invisible": {"\u2028\u0085\u200b\ufeff", `\u2028\u0085\u200b\ufeff`, `\u2028\u0085\u200b\ufeff`},
		"bytes that are no text":            {"a\x9b\xff", "a\ufffd\ufffd", "a\ufffd\ufffd"},
	} {
		if text, line := Text(tt.in), Line(tt.in); text != tt.text || line != tt.line {
			t.Errorf("%s: Text %q, Line %q; want %q, %q", name, text, line, tt.text, tt.line)
		}
	}
}

func TestOnlyOwnSequencesStay(t *testing.T) {
	if got, want := Text("\x1b[31mred\x1b[0m \x1b[31;5m\x1b", "\x1b[31m", "\x1b[0m"), "\x1b[31mred\x1b[0m "+`\u001b[31;5m\u001b`; got != want {
		t.Errorf("it is %q, want %q", got, want)
	}
}

func TestAWriterPassesTextOn(t *testing.T) {
	var out bytes.Buffer
	w := NewWriter(&out)
	if n, err := fmt.Fprint(w, "a\x1b\n"); n != 3 || err != nil || out.String() != `a\u001b`+"\n" {
		t.Errorf("%d, %v, %q", n, err, out.String())
	}
	if Unwrap(w) != &out || Unwrap(&out) != &out {
		t.Error("it is around another writer")
	}
	broken := errors.New("broken")
	if n, err := NewWriter(brokenWriter{broken}).Write([]byte("abc")); n != 0 || !errors.Is(err, broken) {
		t.Errorf("%d, %v", n, err)
	}
}

type brokenWriter struct{ err error }

func (b brokenWriter) Write([]byte) (int, error) { return 0, b.err }

// FuzzText: nothing that is escaped holds a control character, and JSON is the same JSON.
func FuzzText(f *testing.F) {
	for _, seed := range []string{"", "a\nb", "\x1b[2J\x07\r\u009b\u202e", `{"a":"\u001b\n"}`, "{\"a\":\"\u009b\u202e\x7f\"}", "\xff\x9b", "\U000e0001"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		for text, kept := range map[string]string{Text(in): "\n\t", Line(in): ""} {
			if i := strings.IndexFunc(text, func(r rune) bool {
				return unicode.In(r, unicode.Cc, unicode.Bidi_Control, unicode.Zl, unicode.Zp) && !strings.ContainsRune(kept, r)
			}); i >= 0 {
				t.Errorf("%q becomes %q", in, text)
			}
			if again := Text(text); again != text {
				t.Errorf("%q becomes %q, then %q", in, text, again)
			}
		}
		var before, after any
		document, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if json.Unmarshal([]byte(in), &before) == nil && !strings.Contains(in, "\r") { // white space that no encoder writes
			document = []byte(in)
		}
		if err := errors.Join(json.Unmarshal(document, &before), json.Unmarshal([]byte(Text(string(document))), &after)); err != nil || !reflect.DeepEqual(before, after) {
			t.Errorf("%s is %v, then %v: %v", document, before, after, err)
		}
	})
}

// What is escaped is the same document, whatever the form of strings in YAML.
func TestDocumentsArePlainAndTheSame(t *testing.T) {
	for _, text := range []string{"plain", "\x7f\u009b\x1b", "a: \u202eb", "'\u200b'", "\u202e🙂", "\U000e0001\u2028", "a\nb"} {
		for format, encode := range map[string]func(any) (string, error){"JSON": JSON, "YAML": YAML} {
			out, err := encode([]string{text})
			var got []string
			if err := errors.Join(err, yaml.Unmarshal([]byte(out), &got)); err != nil || len(got) != 1 || got[0] != text {
				t.Errorf("%q in %s is %q: %v", text, format, out, err)
			}
			if strings.ContainsAny(out, "\x7f\u009b\x1b\u202e\u200b\u2028") {
				t.Errorf("%q in %s is not plain: %q", text, format, out)
			}
		}
		if _, err := YAML(func() {}); err == nil {
			t.Error("a function is encoded")
		}
	}
}

// kubectl gcu -o json | jq is not the only reader: people read it too.
func TestDocumentsShowWhatOnlyHTMLEscapes(t *testing.T) {
	for format, encode := range map[string]func(any) (string, error){"JSON": JSON, "YAML": YAML} {
		if out, err := encode([]string{"kernel >=5.10 && <7"}); err != nil || !strings.Contains(out, "kernel >=5.10 && <7") {
			t.Errorf("in %s it is %q: %v", format, out, err)
		}
	}
}
