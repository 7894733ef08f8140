package bundle

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzRedact checks that secrets are removed whatever is around them, and that what is redacted
// stays as it is.
func FuzzRedact(f *testing.F) {
	f.Add("--listen=:9400 ", " https://user:x@registry", "sentinel2")
	f.Add(`curl -H 'Authorization: Bearer `, `' x`, "a.b~c")
	f.Add("-----BEGIN PRIVATE KEY-----\n", "\n-----END PRIVATE KEY-----", "MII")
	f.Add("token=\"", "\"", "eyJhbGciOi.eyJz.x")
	f.Add("key: ", ", next: 1", "p@ss:w/ord=")
	f.Fuzz(func(t *testing.T, before, after, secret string) {
		if len(before)+len(after) > 10_000 {
			return
		}
		secret = "hunter2" + strings.Map(wordOnly, secret)
		around := map[string]any{"kind": "Pod", "password": before + secret, "note": before + " password=" + secret + " " + after,
			"url":  "mysql://root:" + secret + "@db/" + strings.Map(wordOnly, after),
			"env":  []any{map[string]any{"name": before, "value": "1"}, map[string]any{"name": "X_TOKEN", "value": before + secret + after}},
			"args": []any{before, "--" + strings.Map(wordOnly, before) + "-token=" + secret + after, "--password", secret, after},
			"data": map[string]any{"x": before}}
		clean := redact(around)
		text, err := json.Marshal(clean)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), secret) {
			t.Errorf("%q shows %q", text, secret)
		}
		var again map[string]any
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if twice, _ := json.Marshal(redact(again)); strings.Contains(string(twice), secret) || len(twice) > len(text)+200 {
			t.Errorf("redacted twice:\n%s\n%s", text, twice)
		}
		if again["kind"] != "Pod" || strings.Contains(scrub(before+"\nsecret: "+secret+"\n"+after), secret) {
			t.Errorf("%q, %q", again["kind"], scrub(before+"\nsecret: "+secret+"\n"+after))
		}
	})
}

// wordOnly keeps letters and digits of ASCII.
func wordOnly(r rune) rune {
	if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
		return r
	}
	return -1
}
