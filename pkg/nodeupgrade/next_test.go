package nodeupgrade

import (
	"reflect"
	"testing"

	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

func newMachine(t *testing.T) *Machine {
	t.Helper()
	m, err := New(upgradeplan.DefaultBook())
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func sameRecord(a, b Record) bool {
	return reflect.DeepEqual(a.Operation, b.Operation) && len(a.History) == len(b.History) && reflect.DeepEqual(append(a.History[:0:0], a.History...), append(b.History[:0:0], b.History...))
}
