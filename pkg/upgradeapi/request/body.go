package request

import (
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/strictyaml"
)

// Modes of an upgrade: in place, where the fleet is rolled node by node, or by deleting the components and
// creating them again, as gcu-upgrade-manager did (contract section 2.10, D8).
const (
	ModeInPlace  = "inPlace"
	ModeRecreate = "recreate"
)

// Policies of a deletion: background answers at once, foreground when the gr is gone (contract statement 71).
const (
	policyBackground = "background"
	policyForeground = "foreground"
)

// Upgrade is the body of a PUT: the name of a blueprint or a spec, and what the upgrade is
// limited to. With neither blueprint nor spec, only the limit changes.
type Upgrade struct {
	File string                  `json:"file"`
	Spec *topsv1.GcuResourceSpec `json:"spec"`
	Mode string                  `json:"mode"`
	Limit
}

// Limit limits an upgrade to some nodes and components; all others keep their versions (contract statement 93).
type Limit struct {
	// Nodes and Components by name; nil is all.
	Nodes      []string `json:"nodes"`
	Components []string `json:"components"`
	// All removes the limit.
	All bool `json:"all"`
}

// Given reports whether a limit, or none, is requested explicitly.
func (l Limit) Given() bool { return l.All || l.Nodes != nil || l.Components != nil }

// value returns the limit, nil for none.
func (l Limit) value() *daemonset.Limit {
	if l.Nodes == nil && l.Components == nil {
		return nil
	}
	return &daemonset.Limit{Nodes: l.Nodes, Components: l.Components}
}

// check rejects an invalid limit. An empty list does not mean all.
func (l Limit) check() error {
	if l.Nodes != nil && len(l.Nodes) == 0 || l.Components != nil && len(l.Components) == 0 {
		return BadRequest("nodes or components is an empty list: name some, or leave it out for all")
	}
	if l.All && l.value() != nil {
		return BadRequest("all and nodes or components exclude each other")
	}
	return nil
}

// ReadUpgrade reads the body of a PUT, whatever its content type (statements 69
// and 70).
func ReadUpgrade(body []byte) (Upgrade, error) {
	b := Upgrade{Mode: ModeInPlace}
	if err := unmarshal(body, &b); err != nil {
		return b, BadRequest(`the body has to be JSON like {"file": "gr.json"}: %v`, err)
	}
	if b.File == "" && b.Spec == nil && !b.Given() || b.File != "" && b.Spec != nil {
		return b, BadRequest(`the body must have either a blueprint, {"file": "gr.json"}, or a spec, {"spec": {...}}`)
	}
	return b, b.Check()
}

// Check returns an error for an unknown mode or an invalid limit.
func (b *Upgrade) Check() error {
	switch {
	case b.Mode != ModeInPlace && b.Mode != ModeRecreate:
		return BadRequest("mode %.100q is neither %s nor %s", b.Mode, ModeInPlace, ModeRecreate)
	case b.Mode == ModeRecreate && b.Given():
		return BadRequest("mode %s replaces everything at once: it cannot be limited", ModeRecreate)
	}
	return b.check()
}

// ReadDeletion reads the body of a DELETE, and reports whether its policy is foreground. An
// empty body means background.
func ReadDeletion(body []byte) (foreground bool, err error) {
	b := struct {
		Policy string `json:"policy"`
	}{policyBackground}
	if err := unmarshal(orNone(body), &b); err != nil {
		return false, BadRequest(`the body has to be JSON like {"policy": "foreground"}, or empty: %v`, err)
	}
	if b.Policy != policyBackground && b.Policy != policyForeground {
		return false, BadRequest("policy %.100q is neither %s nor %s", b.Policy, policyBackground, policyForeground)
	}
	return b.Policy == policyForeground, nil
}

// ReadRollback reads the body of a rollback and returns the revision to restore. An empty
// body means the previous one.
func ReadRollback(body []byte) (string, error) {
	b := struct {
		To string `json:"to"`
	}{topsv1.RollbackToPrevious}
	if err := unmarshal(orNone(body), &b); err != nil {
		return "", BadRequest(`the body has to be JSON like {"to": "previous"}, or empty: %v`, err)
	}
	if b.To == "" {
		return "", BadRequest("to is empty: name a revision, or %s", topsv1.RollbackToPrevious)
	}
	return b.To, nil
}

// unmarshal reads a body. A null is an error: it would count as absent, so that "nodes": null meant all nodes.
func unmarshal(body []byte, into any) error {
	if err := strictyaml.UnmarshalJSON(body, into); err != nil {
		return err
	}
	var content map[string]any
	if err := strictyaml.UnmarshalJSON(body, &content); err != nil {
		return err
	}
	return strictyaml.RefuseNulls(content)
}

// orNone returns the body, {} if it is empty.
func orNone(body []byte) []byte {
	if strings.TrimSpace(string(body)) == "" {
		return []byte("{}")
	}
	return body
}

// RejectBody rejects a body of a request that takes none.
func RejectBody(body []byte) error {
	if strings.TrimSpace(string(orNone(body))) != "{}" {
		return BadRequest("this request takes no body")
	}
	return nil
}
