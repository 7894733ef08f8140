package message

import "testing"

func TestNamesShowsFiveAndCountsTheRest(t *testing.T) {
	for want, names := range map[string][]string{
		"":                         nil,
		"a, b, c, d, e":            {"a", "b", "c", "d", "e"},
		"a, b, c, d, e and 2 more": {"a", "b", "c", "d", "e", "f", "g"},
	} {
		if got := Names(names); got != want {
			t.Errorf("Names(%v) = %q, want %q", names, got, want)
		}
	}
}

func TestCountKnowsThePlural(t *testing.T) {
	for want, n := range map[string]int{"0 nodes": 0, "1 node": 1, "2 nodes": 2} {
		if got := Count(n, "node"); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestShortCutsBetweenCharacters(t *testing.T) {
	for _, tt := range []struct{ text, want string }{{"short", "short"}, {"12345678", "12345678"}, {"123456789", "12345…"}, {"1234ääää", "1234…"}} {
		if got := Short(tt.text, 8); got != tt.want {
			t.Errorf("Short(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}
