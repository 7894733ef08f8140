package upgradeapi

import (
	"encoding/json"
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Modes of an upgrade (contract section 2.10, D8).
const (
	modeInPlace  = "inPlace"
	modeRecreate = "recreate"
)

// Policies of a deletion (contract statement 71).
const (
	policyBackground = "background"
	policyForeground = "foreground"
)

// upgradeBody is the body of a PUT: a blueprint by name, or a spec.
type upgradeBody struct {
	File string                  `json:"file"`
	Spec *topsv1.GcuResourceSpec `json:"spec"`
	Mode string                  `json:"mode"`
}

// upgradeIn reads the body of a PUT, whatever its content type (statements 69
// and 70).
func upgradeIn(body []byte) (upgradeBody, error) {
	b := upgradeBody{Mode: modeInPlace}
	if err := decodeStrictly(body, &b); err != nil {
		return b, badRequest(`the body has to be JSON like {"file": "gr.json"}: %v`, err)
	}
	if (b.File == "") == (b.Spec == nil) {
		return b, badRequest(`the body has to name a blueprint, {"file": "gr.json"}, or to hold a spec, {"spec": {...}}: one of them`)
	}
	if b.Mode != modeInPlace && b.Mode != modeRecreate {
		return b, badRequest("mode %.100q is neither %s nor %s", b.Mode, modeInPlace, modeRecreate)
	}
	return b, nil
}

// policyIn reads the body of a DELETE: none at all is background.
func policyIn(body []byte) (string, error) {
	b := struct {
		Policy string `json:"policy"`
	}{policyBackground}
	if len(strings.TrimSpace(string(body))) > 0 {
		if err := decodeStrictly(body, &b); err != nil {
			return "", badRequest(`the body has to be JSON like {"policy": "foreground"}, or empty: %v`, err)
		}
	}
	if b.Policy != policyBackground && b.Policy != policyForeground {
		return "", badRequest("policy %.100q is neither %s nor %s", b.Policy, policyBackground, policyForeground)
	}
	return b.Policy, nil
}

// rollbackIn reads the body of a rollback, the revision to go back to: none is
// the previous one.
func rollbackIn(body []byte) (string, error) {
	b := struct {
		To string `json:"to"`
	}{topsv1.RollbackToPrevious}
	if len(strings.TrimSpace(string(body))) > 0 {
		if err := decodeStrictly(body, &b); err != nil {
			return "", badRequest(`the body has to be JSON like {"to": "previous"}, or empty: %v`, err)
		}
	}
	if b.To == "" {
		return "", badRequest("to is empty: name a revision, or %s", topsv1.RollbackToPrevious)
	}
	return b.To, nil
}

// noBody refuses a body where nobody would read it.
func noBody(body []byte) error {
	if text := strings.TrimSpace(string(body)); text != "" && text != "{}" {
		return badRequest("this request takes no body")
	}
	return nil
}

// maxLoggedBytes bounds what a line of the log holds of a body.
const maxLoggedBytes = 1 << 10

// loggable returns a body for the log (statement 78): the fields that are known,
// of every other one its name only. A spec's environment variables may be secrets.
func loggable(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || len(fields) > len(told)+1 {
		return "…"
	}
	whole := len(body) <= maxLoggedBytes
	for key, value := range fields {
		if !slices.Contains(told, key) || len(value) > maxLoggedBytes/len(told) {
			fields[key], whole = json.RawMessage(`"…"`), false
		}
	}
	if whole {
		return string(body)
	}
	text, err := json.Marshal(fields)
	if err != nil || len(text) > maxLoggedBytes {
		return "…"
	}
	return string(text)
}

// told are the fields of bodies whose values are logged.
var told = []string{"file", "mode", "policy", "to"}
