package request

import (
	"encoding/json"
	"slices"
)

// MaxLoggedBytes is how much of a body is logged at most, maxLoggedFields how many fields.
const (
	MaxLoggedBytes  = 1 << 10
	maxLoggedFields = 5
)

// Loggable returns a body for the log (statement 78): the values of known fields, only the
// names of others. Environment variables in a spec may be secrets.
func Loggable(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || len(fields) > maxLoggedFields {
		return "…"
	}
	whole := len(body) <= MaxLoggedBytes
	for key, value := range fields {
		if !slices.Contains(logged, key) || len(value) > MaxLoggedBytes/maxLoggedFields {
			fields[key], whole = json.RawMessage(`"…"`), false
		}
	}
	if whole {
		return string(body)
	}
	text, err := json.Marshal(fields)
	if err != nil || len(text) > MaxLoggedBytes {
		return "…"
	}
	return string(text)
}

// logged are the fields of bodies whose values are logged.
var logged = []string{"file", "mode", "policy", "to", "nodes", "components", "all"}
