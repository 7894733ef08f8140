package request

import (
	"strings"
	"testing"
)

// A null would count as absent, and absent means the most: all nodes, the previous spec.
func TestANullInABodyIsRefused(t *testing.T) {
	readers := map[string]func([]byte) error{
		"upgrade":  func(body []byte) error { _, err := ReadUpgrade(body); return err },
		"deletion": func(body []byte) error { _, err := ReadDeletion(body); return err },
		"rollback": func(body []byte) error { _, err := ReadRollback(body); return err },
	}
	for _, tt := range []struct{ reader, body, says string }{
		{"upgrade", `{"file": "gr.json", "nodes": null}`, "nodes is null"},
		{"upgrade", `{"spec": {}, "components": null}`, "components is null"},
		{"upgrade", `{"file": "gr.json", "mode": null}`, "mode is null"},
		{"upgrade", `{"file": "gr.json", "spec": null}`, "spec is null"},
		{"upgrade", `{"file": null, "spec": {}}`, "file is null"},
		{"upgrade", `{"file": "gr.json", "all": null}`, "all is null"},
		{"upgrade", `{"spec": {"driver": null}}`, "spec.driver is null"},
		{"upgrade", `{"nodes": ["a", null]}`, "nodes[1] is null"},
		{"deletion", `{"policy": null}`, "policy is null"},
		{"rollback", `{"to": null}`, "to is null"},
		{"upgrade", `{"spec": {}, "mode": "recreate"}`, ""},
		{"deletion", ` `, ""},
		{"rollback", `{}`, ""},
	} {
		err := readers[tt.reader]([]byte(tt.body))
		if tt.says == "" && err != nil || tt.says != "" && (!isBadRequest(err) || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%s %s: %v, want %q", tt.reader, tt.body, err, tt.says)
		}
	}
}
