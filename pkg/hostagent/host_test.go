package hostagent

import (
	"errors"
	"fmt"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

func TestChoose(t *testing.T) {
	silent := errors.New("silent")
	answers := func() error { return nil }
	isSilent := func() error { return silent }
	unasked := func() error { t.Error("docker is asked, which may start it"); return nil }
	noCRI := fmt.Errorf("asking containerd: %w", status.Error(codes.Unimplemented, "unknown service runtime.v1.RuntimeService"))
	starting := fmt.Errorf("asking containerd: %w", status.Error(codes.Unavailable, "connection refused"))
	runsIt := func() error { return nil }
	runsOthers := func() error { return errOwnContainer }
	absent := fmt.Errorf("%w /run/x", errNoSocket)
	tests := map[string]struct {
		in   candidates
		want task.Engine
	}{
		"containerd runs the pods":                           {candidates{docker: unasked}, task.Containerd},
		"docker with a containerd that runs no pods":         {candidates{containerd: noCRI, docker: answers, ownGone: runsIt}, task.Docker},
		"containerd without its CRI plugin, beside a docker": {candidates{containerd: noCRI, docker: answers, ownGone: runsOthers}, ""},
		"docker without a containerd":                        {candidates{containerd: absent, docker: answers, ownGone: runsIt}, task.Docker},
		"containerd restarts, beside a docker":               {candidates{containerd: absent, docker: answers, ownGone: runsOthers}, ""},
		"containerd restarts, beside a silent docker":        {candidates{containerd: absent, docker: isSilent, ownGone: runsIt}, ""},
		"containerd is starting":                             {candidates{containerd: starting, docker: unasked}, ""},
		"cri-dockerd is there":                               {candidates{criDockerd: true, docker: unasked}, task.Docker},
		"none answers":                                       {candidates{containerd: noCRI, docker: isSilent}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := choose(test.in)
			if got != test.want || (err == nil) != (test.want != "") || errors.Is(err, errOwnContainer) {
				t.Errorf("choose = %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestTheUnitThatRunsContainerd(t *testing.T) {
	unit := func(active, file string) map[string]any {
		return map[string]any{"ActiveState": active, "UnitFileState": file}
	}
	for name, test := range map[string]struct {
		server, agent map[string]any
		want          string
	}{
		"a worker":                       {unit("inactive", "disabled"), unit("active", "enabled"), "agent"},
		"a worker that was a server":     {unit("failed", "enabled"), unit("active", "enabled"), "agent"},
		"a server that restarts":         {unit("activating", "enabled"), unit("inactive", "disabled"), "server"},
		"a worker whose unit is stopped": {unit("inactive", "disabled"), unit("inactive", "enabled"), "agent"},
		"nothing says which":             {unit("inactive", "disabled"), unit("failed", "disabled"), ""},
		"both may be meant":              {unit("inactive", "enabled"), unit("inactive", "enabled"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := unitThatRuns([]string{"server", "agent"}, []map[string]any{test.server, test.agent})
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("unit %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
