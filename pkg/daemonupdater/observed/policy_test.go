package observed

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

var three, half = intstr.FromInt32(3), intstr.FromString("50%")

func seconds(n int32) *int32 { return &n }

// selecting returns a selector of one label; with an unknown operator it cannot be parsed.
func selecting(key string, operator metav1.LabelSelectorOperator) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator}}}
}

// inputUnder returns the input of one DaemonSet on these nodes under this policy, nil for a
// missing one.
func inputUnder(ds *appsv1.DaemonSet, policy *topsv1.UpgradePolicy, nodes ...*corev1.Node) rollout.Input {
	o := seen{members: []memberAndPods{memberWith(ds)}, nodes: nodes, policy: policy}.observe()
	in := inputFrom(o)
	for _, n := range nodes {
		in.Nodes = append(in.Nodes, *o.fleet.Node(n.Name))
	}
	return in
}

func TestApplyPolicyRefinesTheInput(t *testing.T) {
	type refined struct {
		Max       intstr.IntOrString
		Deadlines rollout.Deadlines
		Policy    rollout.Policy
	}
	defaults := rollout.DefaultDeadlines
	said := fixture.Annotate(fixture.UnderPolicy(fixture.DaemonSet("driver")), topsv1.AnnotationMaxUnavailable, "2")
	tests := []struct {
		name string
		ds   *appsv1.DaemonSet
		spec topsv1.UpgradePolicySpec
		want refined
	}{
		{"an empty policy is no policy", fixture.UnderPolicy(fixture.DaemonSet("driver")), topsv1.UpgradePolicySpec{}, refined{Deadlines: defaults}},
		{"its max-unavailable holds when no annotation says it", fixture.UnderPolicy(fixture.DaemonSet("driver")), topsv1.UpgradePolicySpec{MaxUnavailable: &half},
			refined{Max: half, Deadlines: defaults}},
		{"the annotation wins", said, topsv1.UpgradePolicySpec{MaxUnavailable: &half}, refined{Max: intstr.FromInt32(2), Deadlines: defaults}},
		{"the annotation holds when the policy says nothing", said, topsv1.UpgradePolicySpec{}, refined{Max: intstr.FromInt32(2), Deadlines: defaults}},
		{"its progress deadline", fixture.UnderPolicy(fixture.DaemonSet("driver")), topsv1.UpgradePolicySpec{ProgressDeadlineSeconds: seconds(90)},
			refined{Deadlines: rollout.Deadlines{Progress: 90 * time.Second, Lost: defaults.Lost, Unavailable: defaults.Unavailable, Probation: defaults.Probation}}},
		{"its lost deadline", fixture.UnderPolicy(fixture.DaemonSet("driver")), topsv1.UpgradePolicySpec{LostDeadlineSeconds: seconds(91)},
			refined{Deadlines: rollout.Deadlines{Progress: defaults.Progress, Lost: 91 * time.Second, Unavailable: defaults.Unavailable, Probation: defaults.Probation}}},
		{"how long an unavailable node is not urgent", fixture.UnderPolicy(fixture.DaemonSet("driver")), topsv1.UpgradePolicySpec{UnavailableSeconds: seconds(93)},
			refined{Deadlines: rollout.Deadlines{Progress: defaults.Progress, Lost: defaults.Lost, Unavailable: 93 * time.Second, Probation: defaults.Probation}}},
		{"how long a node is on probation", fixture.UnderPolicy(fixture.DaemonSet("driver")), topsv1.UpgradePolicySpec{ProbationSeconds: seconds(0)},
			refined{Deadlines: rollout.Deadlines{Progress: defaults.Progress, Lost: defaults.Lost, Unavailable: defaults.Unavailable}}},
		{"how long returned nodes are left alone", fixture.UnderPolicy(fixture.DaemonSet("driver")), topsv1.UpgradePolicySpec{ReturnedSeconds: seconds(92)},
			refined{Deadlines: defaults, Policy: rollout.Policy{Returned: 92 * time.Second}}},
		{"its threshold", fixture.UnderPolicy(fixture.DaemonSet("driver")), topsv1.UpgradePolicySpec{Failure: &topsv1.FailurePolicy{Threshold: &three}},
			refined{Deadlines: defaults, Policy: rollout.Policy{Threshold: &three}}},
		{"a policy the settings do not name is not looked at", fixture.DaemonSet("driver"), topsv1.UpgradePolicySpec{MaxUnavailable: &half, ReturnedSeconds: seconds(92)},
			refined{Max: intstr.FromInt32(1), Deadlines: defaults}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inputUnder(tt.ds, fixture.PolicyWith(tt.spec))
			if in.Blocked != nil {
				t.Fatalf("Blocked = %+v", in.Blocked)
			}
			got := refined{in.Settings.MaxUnavailable, in.Deadlines, in.Policy}
			tt.want.Policy.ControlPlane = rollout.ControlPlaneFirst
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("input (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPolicyThatIsMissingOrNotUnderstoodBlocksTheGroup(t *testing.T) {
	ds := func() *appsv1.DaemonSet { return fixture.UnderPolicy(fixture.DaemonSet("driver")) }
	behind := ds()
	behind.Status.ObservedGeneration = 1
	window := func(zone string) *topsv1.UpgradePolicy {
		return fixture.PolicyWith(topsv1.UpgradePolicySpec{MaxUnavailable: &half, ReturnedSeconds: seconds(9),
			Window: &topsv1.MaintenanceWindow{Start: "01:00", DurationMinutes: 60, TimeZone: zone}})
	}
	wave := fixture.PolicyWith(topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{{Name: "first", Size: &three}, {Name: "second", Selector: selecting("gcu", "Sometimes")}}})
	tests := []struct {
		name   string
		ds     *appsv1.DaemonSet
		policy *topsv1.UpgradePolicy
		want   *rollout.Blocked
	}{
		{"not one that is there", ds(), fixture.PolicyWith(topsv1.UpgradePolicySpec{}), nil},
		{"not one that nobody names", fixture.DaemonSet("driver"), nil, nil},
		{"a missing one", ds(), nil, &rollout.Blocked{Reason: "UpgradePolicyNotFound",
			Message: `annotation topsops.enflame.com/upgrade-policy names UpgradePolicy "gold", which does not exist: create it, or remove the annotation`}},
		{"one with an unknown time zone", ds(), window("Mars/Olympus"), &rollout.Blocked{Reason: "InvalidUpgradePolicy",
			Message: `UpgradePolicy gold: "Mars/Olympus" is not an IANA time zone, such as Asia/Shanghai`}},
		{"one with the zone of some machine", ds(), window("Local"), &rollout.Blocked{Reason: "InvalidUpgradePolicy",
			Message: `UpgradePolicy gold: "Local" is not an IANA time zone, such as Asia/Shanghai`}},
		{"one with a bad selector", ds(), wave, &rollout.Blocked{Reason: "InvalidUpgradePolicy",
			Message: `UpgradePolicy gold: selector of wave second: "Sometimes" is not a valid label selector operator`}},
		{"one with a bad range of versions", ds(), fixture.PolicyWith(topsv1.UpgradePolicySpec{Versions: &topsv1.VersionPolicy{
			Steps: []topsv1.VersionStep{{Component: "driver", From: "1.4", To: "1.5.x"}}}}), &rollout.Blocked{Reason: "InvalidUpgradePolicy",
			Message: `UpgradePolicy gold: versions.steps[0].from: "1.4" is not a range of versions: write it as in ">=1.5.0 <1.7.0 || 2.0.x", with three numbers or x`}},
		{"a name that is none, whatever is there", fixture.Annotate(ds(), topsv1.AnnotationUpgradePolicy, "Gold"), fixture.PolicyWith(topsv1.UpgradePolicySpec{}),
			&rollout.Blocked{Reason: "InvalidUpgradePolicy", Message: `annotation topsops.enflame.com/upgrade-policy is "Gold": set it to the name of an UpgradePolicy`}},
		{"not before the target is known", behind, nil, &rollout.Blocked{Reason: "RevisionPending",
			Message: "the DaemonSet controller has observed generation 1 of kube-system/driver, not yet 2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := inputUnder(tt.ds, tt.policy)
			if diff := cmp.Diff(tt.want, in.Blocked); diff != "" {
				t.Errorf("Blocked (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(rollout.Policy{ControlPlane: rollout.ControlPlaneFirst}, in.Policy, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("part of a policy is in force (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPolicyOf(t *testing.T) {
	tests := []struct {
		name string
		spec topsv1.UpgradePolicySpec
		want rollout.Policy
	}{
		{"contract 98: the control plane first, if nothing is said", topsv1.UpgradePolicySpec{}, rollout.Policy{ControlPlane: rollout.ControlPlaneFirst}},
		{"pools", topsv1.UpgradePolicySpec{Pools: &topsv1.PoolPolicy{TopologyKey: "zone", MaxUnavailable: half}}, rollout.Policy{PoolMaxUnavailable: &half}},
		{"the threshold of failures", topsv1.UpgradePolicySpec{Failure: &topsv1.FailurePolicy{Threshold: &half}}, rollout.Policy{Threshold: &half}},
		{"a failure policy without a threshold keeps the default", topsv1.UpgradePolicySpec{Failure: &topsv1.FailurePolicy{Action: topsv1.FailureHalt}}, rollout.Policy{}},
		{"control plane first", topsv1.UpgradePolicySpec{ControlPlane: "First"}, rollout.Policy{ControlPlane: rollout.ControlPlaneFirst}},
		{"control plane last", topsv1.UpgradePolicySpec{ControlPlane: "Last"}, rollout.Policy{ControlPlane: rollout.ControlPlaneLast}},
		{"control plane anywhere", topsv1.UpgradePolicySpec{ControlPlane: "Any"}, rollout.Policy{}},
		{"waves in their order", topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{
			{Name: "canary", Size: &three, SoakSeconds: 600, Approval: "Automatic"},
			{Name: "labeled", Selector: selecting("gcu", metav1.LabelSelectorOpExists), Approval: "Manual"},
			{Name: "everybody", Selector: &metav1.LabelSelector{}}}},
			rollout.Policy{Waves: []rollout.Wave{
				{Name: "canary", Size: &three, Soak: 10 * time.Minute},
				{Name: "labeled", Selector: labelSelector("gcu"), Manual: true},
				{Name: "everybody", Selector: labels.Everything()}}}},
		{"the window", topsv1.UpgradePolicySpec{Window: &topsv1.MaintenanceWindow{Start: "22:30", DurationMinutes: 90}},
			rollout.Policy{Window: &rollout.Window{Start: 22*time.Hour + 30*time.Minute, Length: 90 * time.Minute, Zone: time.UTC}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := policyOf(&tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			if tt.spec.ControlPlane == "" {
				tt.want.ControlPlane = rollout.ControlPlaneFirst
			}
			if diff := cmp.Diff(tt.want, got, compareZones, compareSelectors); diff != "" {
				t.Errorf("policyOf (-want +got):\n%s", diff)
			}
		})
	}
}

func labelSelector(text string) labels.Selector {
	selector, err := labels.Parse(text)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

var (
	compareZones = cmp.Comparer(func(a, b *time.Location) bool {
		return (a == nil) == (b == nil) && (a == nil || a.String() == b.String())
	})
	compareSelectors = cmp.Comparer(func(a, b labels.Selector) bool {
		return (a == nil) == (b == nil) && (a == nil || (a.String() == b.String() && a.Empty() == b.Empty()))
	})
)

func TestWindowOf(t *testing.T) {
	window := func(start, zone string, days ...topsv1.Weekday) *topsv1.MaintenanceWindow {
		return &topsv1.MaintenanceWindow{Start: start, DurationMinutes: 60, TimeZone: zone, Days: days}
	}
	shanghai := time.FixedZone("Asia/Shanghai", 8*60*60) // compared by name
	week := map[time.Weekday]bool{time.Monday: true, time.Tuesday: true, time.Wednesday: true, time.Thursday: true, time.Friday: true, time.Saturday: true, time.Sunday: true}
	tests := []struct {
		name string
		spec *topsv1.MaintenanceWindow
		want *rollout.Window
		err  string
	}{
		{"no window is always", nil, nil, ""},
		{"midnight every day in UTC", window("00:00", ""), &rollout.Window{Length: time.Hour, Zone: time.UTC}, ""},
		{"the last minute of the day", window("23:59", "UTC"), &rollout.Window{Start: 24*time.Hour - time.Minute, Length: time.Hour, Zone: time.UTC}, ""},
		{"in a zone of its own", window("01:05", "Asia/Shanghai"), &rollout.Window{Start: 65 * time.Minute, Length: time.Hour, Zone: shanghai}, ""},
		{"on some days", window("01:00", "UTC", "Sun", "Wed"),
			&rollout.Window{Start: time.Hour, Length: time.Hour, Zone: time.UTC, Days: map[time.Weekday]bool{time.Sunday: true, time.Wednesday: true}}, ""},
		{"on every day by name", window("01:00", "UTC", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
			&rollout.Window{Start: time.Hour, Length: time.Hour, Zone: time.UTC, Days: week}, ""},
		{"an unknown zone is an error", window("01:00", "Asia/Atlantis"), nil, `"Asia/Atlantis" is not an IANA time zone`},
		{"a time of day that is none is an error", window("24:00", "UTC"), nil, "start of the window"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := windowOf(tt.spec)
			if (err != nil) != (tt.err != "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got, compareZones); diff != "" {
				t.Errorf("windowOf (-want +got):\n%s", diff)
			}
		})
	}
}

func TestZoneOf(t *testing.T) {
	for name, offset := range map[string]time.Duration{"UTC": 0, "Asia/Shanghai": 8 * time.Hour, "America/New_York": -5 * time.Hour, "Asia/Kolkata": 330 * time.Minute} {
		zone, err := zoneOf(name)
		if err != nil {
			t.Errorf("zoneOf(%q): %v", name, err)
			continue
		}
		if _, east := fixture.Epoch.In(zone).Zone(); time.Duration(east)*time.Second != offset {
			t.Errorf("zoneOf(%q) is %ds east in winter, want %s", name, east, offset)
		}
	}
	for _, name := range []string{"", "Local", "Mars/Olympus", "Asia.Shanghai", "../UTC", "/etc/localtime", "+08:00", " UTC"} {
		if zone, err := zoneOf(name); err == nil || zone != nil || !strings.Contains(err.Error(), `"`+name+`" is not an IANA time zone`) {
			t.Errorf("zoneOf(%q) = %v, %v, want an error that names it", name, zone, err)
		}
	}
}

func TestApprovedWaves(t *testing.T) {
	tests := []struct {
		name, annotation string
		want             []string
	}{
		{"nothing is approved", "", nil},
		{"a wave of this revision", "r2/canary", []string{"canary"}},
		{"several, with spaces", " r2/canary , r2/edge,", []string{"canary", "edge"}},
		{"not those of another revision", "r1/canary,r2/edge,r22/all,r/all", []string{"edge"}},
		{"not a wave without a revision", "canary,/canary", nil},
		{"not a revision without a wave", "r2", nil},
		{"twice is once", "r2/canary,r2/canary", []string{"canary"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dro := topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{topsv1.AnnotationApprovedWaves: tt.annotation}}}
			got := slices.Sorted(maps.Keys(approvedWaves(dro.Approvals(), "r2")))
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("approved (-want +got):\n%s", diff)
			}
		})
	}
}

func TestApprovalsOfTheRolloutAreForItsRevision(t *testing.T) {
	o := worldOf([]memberAndPods{memberWith(fixture.UnderPolicy(fixture.DaemonSet("driver")))})
	o.Policy = fixture.PolicyWith(topsv1.UpgradePolicySpec{})
	revision := inputFrom(o).Revision
	o.Rollout.Annotations = map[string]string{"topsops.enflame.com/approved-waves": "earlier/edge, " + revision + "/canary"}
	if diff := cmp.Diff(map[string]bool{"canary": true}, inputFrom(o).Policy.Approved); diff != "" {
		t.Errorf("approved (-want +got):\n%s", diff)
	}
}

func TestAControlPlaneNodeIsKnownWithoutAPolicy(t *testing.T) {
	for label, want := range map[string]bool{"node-role.kubernetes.io/control-plane": true, "node-role.kubernetes.io/master": true, "node-role.kubernetes.io/worker": false} {
		node := fixture.Node("a")
		node.Labels = map[string]string{label: ""}
		o := seen{members: []memberAndPods{memberWith(fixture.DaemonSet("driver"), fixture.PodOn(fixture.DaemonSet("driver"), "a", fixture.OldHash))}, nodes: []*corev1.Node{node}}.observe()
		if got := o.fleet.Node("a").ControlPlane; got != want {
			t.Errorf("%s: %t", label, got)
		}
	}
}

func TestDescribeNode(t *testing.T) {
	spec := topsv1.UpgradePolicySpec{Pools: &topsv1.PoolPolicy{TopologyKey: "rack", MaxUnavailable: three},
		Window: &topsv1.MaintenanceWindow{Start: "01:00", DurationMinutes: 60, TimeZoneNodeLabel: "tz"}}
	type described struct {
		Pool, Zone, ZoneError string
	}
	tests := []struct {
		name   string
		spec   topsv1.UpgradePolicySpec
		labels map[string]string
		want   described
	}{
		{"a node without labels", spec, nil, described{}},
		{"its pool", spec, map[string]string{"rack": "7"}, described{Pool: "7"}},
		{"no pool without a policy of pools", topsv1.UpgradePolicySpec{}, map[string]string{"rack": "7", "": "x"}, described{}},
		{"its own time zone, with dots", spec, map[string]string{"tz": "America.Argentina.Ushuaia"}, described{Zone: "America/Argentina/Ushuaia"}},
		{"a time zone of one word", spec, map[string]string{"tz": "UTC"}, described{Zone: "UTC"}},
		{"an unknown one is said", spec, map[string]string{"tz": "Mars.Olympus"},
			described{ZoneError: `node label tz: "Mars/Olympus" is not an IANA time zone, such as Asia/Shanghai`}},
		{"no zone of some machine", spec, map[string]string{"tz": "Local"}, described{ZoneError: `node label tz: "Local" is not an IANA time zone, such as Asia/Shanghai`}},
		{"nor an empty one", spec, map[string]string{"tz": ""}, described{ZoneError: `node label tz: "" is not an IANA time zone, such as Asia/Shanghai`}},
		{"another label is not its time zone", spec, map[string]string{"zone": "Asia.Shanghai"}, described{}},
		{"no time zone without a label in the window", topsv1.UpgradePolicySpec{Window: &topsv1.MaintenanceWindow{Start: "01:00"}},
			map[string]string{"tz": "Mars.Olympus", "": "Mars.Olympus"}, described{}},
		{"no time zone without a window", topsv1.UpgradePolicySpec{}, map[string]string{"tz": "Mars.Olympus"}, described{}},
	}
	known := Zones{}
	for _, tt := range append(tests, tests...) { // the second time from the cache
		t.Run(tt.name, func(t *testing.T) {
			var n rollout.Node
			describeNode(&n, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: tt.labels}}, &tt.spec, known)
			got := described{Pool: n.Pool, ZoneError: n.ZoneError}
			if n.TimeZone != nil {
				got.Zone = n.TimeZone.String()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.labels, n.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNodesAreDescribedUnderAPolicyOnly(t *testing.T) {
	spec := topsv1.UpgradePolicySpec{Pools: &topsv1.PoolPolicy{TopologyKey: corev1.LabelTopologyZone, MaxUnavailable: three}}
	with, without := inputUnder(fixture.UnderPolicy(fixture.DaemonSet("driver")), fixture.PolicyWith(spec), fixture.Node("a")), inputUnder(fixture.DaemonSet("driver"), nil, fixture.Node("a"))
	if with.Nodes[0].Pool != "z" || len(with.Nodes[0].Labels) != 1 || without.Nodes[0].Pool != "" || without.Nodes[0].Labels != nil {
		t.Errorf("nodes under a policy %+v, without %+v", with.Nodes, without.Nodes)
	}
}
