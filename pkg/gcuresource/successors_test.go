package gcuresource

import (
	"errors"
	"testing"

	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
)

// A refused dry run says nothing about a creation that follows a deletion if the quota is used up by what is deleted, or if a
// webhook cannot take part.
func TestWhatARefusedDryRunSays(t *testing.T) {
	here, there := component.Ref{Namespace: "here"}, component.Ref{Namespace: "there"}
	const quota = `deployments.apps "a" is forbidden: exceeded quota: few, requested: count/deployments.apps=1`
	for _, tt := range []struct {
		says    string
		deleted component.Ref
		nothing bool
	}{
		{quota, here, true},
		{quota, there, false},
		{`admission webhook "old.example.com" does not support dry run`, there, true},
		{`namespaces "here" not found`, here, false},
		{`admission webhook "no.example.com" denied the request`, here, false},
	} {
		if got := saysNothing(errors.New(tt.says), here, []state.Owned{{Ref: tt.deleted}}); got != tt.nothing {
			t.Errorf("%s, after a deletion in namespace %s: %t, want %t", tt.says, tt.deleted.Namespace, got, tt.nothing)
		}
	}
}
