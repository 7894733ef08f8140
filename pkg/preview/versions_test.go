package preview

import (
	"testing"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestWhichUpgradesAreRefused(t *testing.T) {
	left := func(reasons ...string) (list []LeftNode) {
		for _, r := range reasons {
			list = append(list, LeftNode{Name: "n", Reason: r, Message: "driver 1.4.0 > 1.6.0"})
		}
		return list
	}
	already := left("VersionNotAllowed")
	already[0].Already = true
	const refused = "the UpgradePolicy does not allow these versions: on 1 node, as on n: driver 1.4.0 > 1.6.0"
	for _, test := range []struct {
		name string
		r    Rollout
		want string
	}{
		{"contract 97: no node may go there", Rollout{Left: left("VersionNotAllowed")}, refused},
		{"contract 97: nor those that are left out or offline", Rollout{Left: left("LeftOut", "NodeOffline", "VersionNotAllowed")}, refused},
		{"contract 97: a single node that is too far behind does not hold up the others", Rollout{Allowed: 1, Left: left("VersionNotAllowed")}, ""},
		{"contract 97: what nodes wait for already refuses no other change", Rollout{Left: already}, ""},
		{"contract 97: nor does a node that waits for something else", Rollout{Left: left("VersionNotAllowed", "Unavailable")}, refused},
		{"all are offline", Rollout{Left: left("NodeOffline")}, ""},
		{"nothing to do", Rollout{}, ""},
	} {
		if got := test.r.Refused(); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
		p := &Preview{Rollout: test.r}
		if _, wrong, _ := p.File(&Question{Wanted: &topsv1.GcuResource{}, Present: &topsv1.GcuResource{}}, time.Time{}); test.want != "" && wrong != test.want {
			t.Errorf("%s: a file is refused with %q, want %q", test.name, wrong, test.want)
		}
	}
}
