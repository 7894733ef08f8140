package access

import (
	"errors"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/topsops/gcu-operator/pkg/podreplace"
)

func TestIsStale(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "daemonrollouts"}, "driver", errors.New("changed"))
	exists := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "daemonrollouts"}, "driver")
	broken500 := apierrors.NewInternalError(errors.New("etcd is away"))
	wrapped := fmt.Errorf("storing the ledger: %w", conflict)
	tests := []struct {
		name string
		err  error
		want bool
	}{
		{"no error", nil, false},
		{"a conflict", conflict, true},
		{"a wrapped conflict", wrapped, true},
		{"an object that exists already", exists, true},
		{"a DaemonSet that changed", podreplace.ErrChanged, true},
		{"another error", broken500, false},
		{"an object that is not found", apierrors.NewNotFound(schema.GroupResource{}, "x"), false},
		{"only such errors", errors.Join(podreplace.ErrChanged, wrapped), true},
		{"such an error and another", errors.Join(wrapped, broken500), false},
		{"another error and such", errors.Join(broken500, podreplace.ErrChanged), false},
		{"another error deep down", errors.Join(podreplace.ErrChanged, errors.Join(wrapped, broken500)), false},
		{"only such errors deep down", errors.Join(podreplace.ErrChanged, errors.Join(wrapped, exists)), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := IsStale(tt.err); got != tt.want {
				t.Errorf("IsStale(%v) = %v, want %v", tt.err, got, tt.want)
			}
		})
	}
}
