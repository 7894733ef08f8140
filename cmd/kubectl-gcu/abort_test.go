package main

import (
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestAbort(t *testing.T) {
	s := newSite(t)
	u := s.upgrade("abort-1", nil)
	s.says(s.gcu("abort", "abort-1"), exitOK, "operation op-1 on node abort-1 is aborted")
	s.says(s.gcu("abort", "abort-1"), exitOK, "is already being aborted")
	s.read(u)
	if op := u.Spec.Operation; op == nil || !op.Abort || !op.Granted || len(op.Job) != 4 {
		t.Errorf("the operation is %+v", op)
	}
	s.upgrade("abort-2", func(u *topsv1.NodeUpgrade) { u.Status.Operation.Held = false })
	s.says(s.gcu("abort", "abort-2"), exitRefused, "has ended")
	s.upgrade("abort-3", func(u *topsv1.NodeUpgrade) { u.Spec.Operation, u.Status.Operation = nil, nil })
	s.says(s.gcu("abort", "abort-3"), exitRefused, "there is no operation on node abort-3")
	s.says(s.gcu("abort", "no-such-node"), exitRefused, "no NodeUpgrade")
}
