package upgradeapi

import (
	"encoding/json"
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
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

// upgradeBody is the body of a PUT: a blueprint by name, or a spec, and what the
// upgrade is limited to. Without either the limit alone is changed.
type upgradeBody struct {
	File string                  `json:"file"`
	Spec *topsv1.GcuResourceSpec `json:"spec"`
	Mode string                  `json:"mode"`
	limit
}

// limit is what an upgrade is limited to (contract statement 93).
type limit struct {
	// Nodes and Components by name; nil is all.
	Nodes      []string `json:"nodes"`
	Components []string `json:"components"`
	// All says in a word that there is no limit.
	All bool `json:"all"`
}

// said reports whether there is anything about a limit.
func (l limit) said() bool { return l.All || l.Nodes != nil || l.Components != nil }

// cut returns the limit, nil for none.
func (l limit) cut() *daemonset.Cut {
	if l.Nodes == nil && l.Components == nil {
		return nil
	}
	return &daemonset.Cut{Nodes: l.Nodes, Components: l.Components}
}

// check refuses a limit that makes no sense. An empty list is nobody's whole fleet.
func (l limit) check() error {
	if l.Nodes != nil && len(l.Nodes) == 0 || l.Components != nil && len(l.Components) == 0 {
		return badRequest("nodes or components is an empty list: name some, or leave it out for all")
	}
	if l.All && l.cut() != nil {
		return badRequest("all and nodes or components exclude each other")
	}
	return nil
}

// upgradeIn reads the body of a PUT, whatever its content type (statements 69
// and 70).
func upgradeIn(body []byte) (upgradeBody, error) {
	b := upgradeBody{Mode: modeInPlace}
	if err := decodeStrictly(body, &b); err != nil {
		return b, badRequest(`the body has to be JSON like {"file": "gr.json"}: %v`, err)
	}
	if b.File == "" && b.Spec == nil && !b.said() || b.File != "" && b.Spec != nil {
		return b, badRequest(`the body has to name a blueprint, {"file": "gr.json"}, or to hold a spec, {"spec": {...}}: one of them`)
	}
	return b, b.check()
}

func (b *upgradeBody) check() error {
	switch {
	case b.Mode != modeInPlace && b.Mode != modeRecreate:
		return badRequest("mode %.100q is neither %s nor %s", b.Mode, modeInPlace, modeRecreate)
	case b.Mode == modeRecreate && b.said():
		return badRequest("mode %s replaces everything at once: it cannot be limited", modeRecreate)
	}
	return b.limit.check()
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

// maxLoggedBytes bounds what a line of the log holds of a body, maxLoggedFields its fields.
const (
	maxLoggedBytes  = 1 << 10
	maxLoggedFields = 5
)

// loggable returns a body for the log (statement 78): the fields that are known,
// of every other one its name only. A spec's environment variables may be secrets.
func loggable(body []byte) string {
	if len(body) == 0 {
		return ""
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || len(fields) > maxLoggedFields {
		return "…"
	}
	whole := len(body) <= maxLoggedBytes
	for key, value := range fields {
		if !slices.Contains(told, key) || len(value) > maxLoggedBytes/maxLoggedFields {
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
var told = []string{"file", "mode", "policy", "to", "nodes", "components", "all"}
