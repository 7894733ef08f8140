package daemonupdater

import (
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// TestTheFrameChangesWithAllThatFactsOfNodesDependOn: else a view that is kept
// would go on with facts that do not hold any more.
func TestTheFrameChangesWithAllThatFactsOfNodesDependOn(t *testing.T) {
	fresh := func() (*observation, *rollout.Input) {
		o := observed([]memberAndPods{memberWith(daemonSet("a"))})
		o.policy = &topsv1.UpgradePolicy{}
		o.policy.UID, o.policy.Generation = "uid-policy", 1
		in := inputFrom(o)
		return o, &in
	}
	same, in := fresh()
	before := frameOf(same, in)
	if o, in := fresh(); frameOf(o, in) != before {
		t.Errorf("the frame of the same is %q, was %q", frameOf(o, in), before)
	}
	tests := []struct {
		name   string
		change func(*observation, *rollout.Input)
	}{
		{"another DaemonSet of the same name", func(o *observation, _ *rollout.Input) { o.members[0].daemonSet.UID = "other" }},
		{"an edit that makes no revision, such as minReadySeconds", func(o *observation, _ *rollout.Input) { o.members[0].daemonSet.Generation++ }},
		{"another target", func(_ *observation, in *rollout.Input) { in.Members[0].Target = "newer" }},
		{"another strategy", func(_ *observation, in *rollout.Input) { in.Settings.Strategy = daemonset.OTA }},
		{"a reason for touching nothing", func(_ *observation, in *rollout.Input) { in.Blocked = &rollout.Blocked{} }},
		{"an edit of the policy", func(o *observation, _ *rollout.Input) { o.policy.Generation++ }},
		{"a policy that was made anew", func(o *observation, _ *rollout.Input) { o.policy.UID = "other" }},
		{"no policy", func(o *observation, _ *rollout.Input) { o.policy = nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o, in := fresh()
			tt.change(o, in)
			if frameOf(o, in) == before {
				t.Errorf("the frame is still %q", before)
			}
		})
	}
}
