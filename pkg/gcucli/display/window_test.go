package display

import (
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// now is a Sunday, 12:00 UTC.
func TestWindows(t *testing.T) {
	const label = "zone"
	nodes := map[string]map[string]string{"a": {label: "Asia.Shanghai"}, "b": {}, "c": {label: "Asia.Shanghai"}, "d": {label: "Mars"}}
	for _, tt := range []struct {
		name   string
		window topsv1.MaintenanceWindow
		want   []string
	}{
		{"open: until its end, and when it opens again", topsv1.MaintenanceWindow{Days: []topsv1.Weekday{"Sun"}, Start: "10:00", DurationMinutes: 180},
			[]string{"window: open until Sun Mar 1 13:00 UTC, and again from Sun Mar 8 10:00 UTC"}},
		{"closed: when it opens, in its zone", topsv1.MaintenanceWindow{Start: "23:30", DurationMinutes: 60, TimeZone: "Asia/Shanghai"},
			[]string{"window: closed, opens Sun Mar 1 23:30 CST until Mon Mar 2 00:30 CST"}},
		{"always open", topsv1.MaintenanceWindow{Start: "10:00", DurationMinutes: 1440}, []string{"window: always open"}},
		{"nodes in several zones", topsv1.MaintenanceWindow{Start: "19:00", DurationMinutes: 120, TimeZoneNodeLabel: label}, []string{
			"window: open until Sun Mar 1 21:00 CST, and again from Mon Mar 2 19:00 CST, for 2 nodes (a, c)",
			"window: closed, opens Sun Mar 1 19:00 UTC until Sun Mar 1 21:00 UTC, for 1 node (b)",
			`window: never open: node label zone: "Mars" is not an IANA time zone, such as Asia/Shanghai, for 1 node (d)`}},
		{"a wrong policy, which the rollout reports", topsv1.MaintenanceWindow{Start: "10:00", TimeZone: "Mars"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			policy := &topsv1.UpgradePolicy{Spec: topsv1.UpgradePolicySpec{Window: &tt.window}}
			dro := &topsv1.DaemonRollout{Status: topsv1.DaemonRolloutStatus{Total: 4}}
			windows := WindowsOf(dro, policy, nodes, now)
			want := ""
			for _, line := range tt.want {
				want += "  " + line + "\n"
			}
			if got := windowsText(windows); got != want {
				t.Errorf("got\n%s, want\n%s", got, want)
			}
			if total := int32(4); !AskNodes(policy) && len(windows) > 0 && windows[0].Nodes != total {
				t.Errorf("it is about %d nodes, want %d", windows[0].Nodes, total)
			}
			dro.Status.Strategy = string(daemonset.OTA)
			if of := WindowsOf(dro, policy, nodes, now); of != nil {
				t.Errorf("requests under OTA have a window: %v", of)
			}
		})
	}
	if of := WindowsOf(nil, nil, nil, now); of != nil || windowsText(nil) != "" {
		t.Errorf("a rollout without a policy has a window: %v", of)
	}
}
