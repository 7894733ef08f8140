package daemonset

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// settingKeys are the annotations that SettingsOf reads besides the strategy.
var settingKeys = []string{topsv1.AnnotationMaxUnavailable, topsv1.AnnotationPaused, topsv1.AnnotationUpgradePolicy, topsv1.AnnotationUpgradeOnly}

// FuzzSettings checks that an error names the annotation and leaves no settings, and that what
// is accepted limits as it says, is paused when it says so, and keeps its limit.
func FuzzSettings(f *testing.F) {
	f.Add("AdvancedRollingUpdate", "10%", "false", "careful", "nodes=n1,n2;components=driver", 30, uint8(15))
	f.Add("ota", "3", "True", "a.b", "components=driver", 0, uint8(15))
	f.Add("auto", "100%", "", "", "nodes=", 1000, uint8(1))
	f.Add("", "0", "yes", "No Name", "nodes=a;nodes=b", 5, uint8(15))
	f.Add("OTA", "999999999%", "true\n", "", "Nodes=N1 ; components = x", 5, uint8(12))
	f.Fuzz(func(t *testing.T, strategy, most, paused, policy, only string, total int, present uint8) {
		ds := &appsv1.DaemonSet{}
		ds.Spec.UpdateStrategy.Type = appsv1.OnDeleteDaemonSetStrategyType
		ds.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: strategy}
		for i, value := range []string{most, paused, policy, only} {
			if present&(1<<i) != 0 {
				ds.Annotations[settingKeys[i]] = value
			}
		}
		s, err := SettingsOf(ds)
		if err != nil {
			checkSettingsError(t, ds, s, err)
			return
		}
		if want := present&2 != 0 && strings.EqualFold(paused, "true"); s.Paused != want {
			t.Errorf("paused %q is %t", paused, s.Paused)
		}
		if total %= 100_000; total > 0 {
			checkLimit(t, s, total)
		}
		limit, err := LimitOf(ds.Annotations)
		if err != nil || (limit == nil) != (present&8 == 0) {
			t.Fatalf("limit of accepted settings: %v, %v", limit, err)
		}
		if limit != nil {
			checkNames(t, limit, only)
		}
	})
}

func checkSettingsError(t *testing.T, ds *appsv1.DaemonSet, s Settings, err error) {
	wrong, ok := errors.AsType[*SettingsError](err)
	if !ok || wrong.Reason == "" || s != (Settings{}) {
		t.Fatalf("%+v with error %v", s, err)
	}
	named := slices.ContainsFunc(append(settingKeys, topsv1.AnnotationUpdateStrategy), func(key string) bool {
		_, present := ds.Annotations[key]
		return present && strings.HasPrefix(wrong.Message, "annotation "+key+" is ")
	})
	if !named {
		t.Errorf("%q does not name the annotation", wrong.Message)
	}
}

// checkLimit compares the limit with the percentage, in whole numbers.
func checkLimit(t *testing.T, s Settings, total int) {
	most, want := s.MaxUnavailable, 0
	if most == (intstr.IntOrString{}) {
		most = DefaultMaxUnavailable
	}
	if want = most.IntValue(); most.Type == intstr.String {
		percent := intstr.FromString(strings.TrimSuffix(most.StrVal, "%"))
		want = (percent.IntValue()*total + 99) / 100
		if want > total {
			t.Errorf("%s of %d is %d", most.StrVal, total, want)
		}
	}
	if got := s.MaxUnavailableOf(total); got != want || got < 1 {
		t.Errorf("limit of %s for %d nodes is %d, want %d", most.String(), total, got, want)
	}
}

// checkNames checks that a limit limits, to names that its value has, and is the same when written.
func checkNames(t *testing.T, limit *Limit, value string) {
	if len(limit.Nodes)+len(limit.Components) == 0 {
		t.Fatalf("%q limits nothing", value)
	}
	for _, name := range slices.Concat(limit.Nodes, limit.Components) {
		if !strings.Contains(value, name) || strings.ContainsAny(name, " ,;=") {
			t.Errorf("%q names %q", value, name)
		}
	}
	again, err := LimitOf(map[string]string{topsv1.AnnotationUpgradeOnly: limit.String()})
	if diff := cmp.Diff(limit, again); err != nil || diff != "" {
		t.Errorf("%q is written as %q: %v\n%s", value, limit.String(), err, diff)
	}
}

// FuzzHold checks that any value of the annotation holds the node, and that a hold is the same
// when read again.
func FuzzHold(f *testing.F) {
	f.Add("2030-01-01T00:00:00Z until the audit", int64(1893456000))
	f.Add("", int64(0))
	f.Add("false", int64(-1))
	f.Add("2030-01-01T00:00:00+08:00  two  spaces\n", int64(1893456000))
	f.Fuzz(func(t *testing.T, value string, unix int64) {
		holds := HoldsOf(annotatedHold(value))
		if len(holds) != 1 || holds[0].By != ByAdministrator {
			t.Fatalf("%q is %v", value, holds)
		}
		since := time.Unix(unix%(1<<37), 0).UTC()
		if since.Year() < 1 || since.Year() > 9999 {
			return
		}
		want := Hold{By: ByAdministrator, Since: since, Message: strings.TrimSpace(value)}
		if diff := cmp.Diff([]Hold{want}, HoldsOf(annotatedHold(HoldValue(since, value)))); diff != "" {
			t.Errorf("read again (-want +got):\n%s", diff)
		}
	})
}

func annotatedHold(value string) *topsv1.NodeUpgrade {
	upgrade := &topsv1.NodeUpgrade{}
	upgrade.Annotations = map[string]string{topsv1.AnnotationHold: value}
	return upgrade
}
