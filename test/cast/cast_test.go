package cast

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
)

// steps returns a clock that is half a second later each time.
func steps() func() time.Time {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return func() time.Time {
		now = now.Add(500 * time.Millisecond)
		return now
	}
}

func record(t *testing.T, writes ...string) string {
	t.Helper()
	var out bytes.Buffer
	r, err := Record(&out, "demo", 100, 30, steps())
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range writes {
		if n, err := r.Write([]byte(w)); err != nil || n != len(w) {
			t.Fatalf("writing %q: %d, %v", w, n, err)
		}
	}
	return out.String()
}

func TestRecord(t *testing.T) {
	want := `{"version":2,"width":100,"height":30,"idle_time_limit":2,"title":"demo"}
[0.5,"o","one\r\ntwo"]
[1,"o","✔ \"quoted\"\u001b[0m\r\n"]
`
	// The mark ✔ has three bytes, which come in two writes; the first of them alone is no text.
	if got := record(t, "one\ntwo", "\xe2", "\x9c\x94 \"quoted\"\x1b[0m\r\n"); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
}

func TestText(t *testing.T) {
	cast := record(t, "\x1b[1mchapter\x1b[0m\n", "  [##··] 50%", "\r\x1b[K", "  done\n", "last")
	if got, err := Text(strings.NewReader(cast)); err != nil || got != "chapter\n  done\nlast\n" {
		t.Errorf("%q, %v", got, err)
	}
	for name, bad := range map[string]string{"nothing": "", "version 1": `{"version":1}`, "no event": record(t) + "none\n"} {
		if got, err := Text(strings.NewReader(bad)); err == nil {
			t.Errorf("%s: it is %q", name, got)
		}
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestAFullDiskIsSaid(t *testing.T) {
	if _, err := Record(full{}, "", 80, 24, steps()); err == nil {
		t.Error("a cast that could not be written was written")
	}
}
