package request

import (
	"strings"
	"testing"
)

func TestLoggable(t *testing.T) {
	long := strings.Repeat("x", 300)
	for body, want := range map[string]string{
		"":                                      "",
		`{"file": "gr.json"}`:                   `{"file": "gr.json"}`,
		`{"policy":"foreground"}`:               `{"policy":"foreground"}`,
		`{"spec":{"a":"secret"},"mode":"x"}`:    `{"mode":"x","spec":"…"}`,
		`{"to":"` + long + `"}`:                 `{"to":"…"}`,
		`{"spec": "secret"`:                     "…",
		`secret`:                                "…",
		`["secret"]`:                            "…",
		`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}`: "…",
		`{"` + strings.Repeat("k", 2000) + `":1}`: "…",
	} {
		if got := Loggable([]byte(body)); got != want {
			t.Errorf("Loggable(%s) = %s, want %s", body, got, want)
		}
	}
}
