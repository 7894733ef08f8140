package observed

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/test/fixture"
)

// FuzzPolicy plans a rollout of ten nodes under a policy as stored. It checks that an invalid policy
// starts nothing and is named, that the budgets hold, and that a node with an invalid time zone is
// not started.
func FuzzPolicy(f *testing.F) {
	f.Add([]byte(`{"maxUnavailable":3,"pools":{"topologyKey":"zone","maxUnavailable":1}}`), "b", "")
	f.Add([]byte(`{"maxUnavailable":"100%","waves":[{"name":"canary","size":1,"approval":"Manual"},{"name":"zone","selector":{"matchLabels":{"zone":"a"}}}]}`), "a", fixture.NewHash+"/canary")
	f.Add([]byte(`{"waves":[{"name":"w","selector":{"matchExpressions":[{"key":"zone","operator":"Near"}]}}]}`), "a", "")
	f.Add([]byte(`{"maxUnavailable":"50%","window":{"start":"00:00","durationMinutes":1440,"timeZoneNodeLabel":"zone"}}`), "Asia.Shanghai", "")
	f.Add([]byte(`{"maxUnavailable":10,"window":{"start":"25:00","durationMinutes":1}}`), "Local", "")
	f.Add([]byte(`{"maxUnavailable":10,"window":{"start":"23:00","durationMinutes":60,"timeZone":"../etc","days":["Mon"]}}`), "", "")
	f.Add([]byte(`{"maxUnavailable":"x%","failure":{"threshold":0},"probationSeconds":0,"returnedSeconds":5}`), "a", ",/,")
	f.Add([]byte(`{"drain":{"resources":["enflame.com/*","*gcu*","**"],"podSelector":{"matchExpressions":[{"key":"a","operator":"In"}]}}}`), "enflame.com/gcu", "")
	f.Fuzz(func(t *testing.T, data []byte, zone, approved string) {
		var spec topsv1.UpgradePolicySpec
		if json.Unmarshal(data, &spec) != nil {
			return
		}
		checkDrain(t, spec.Drain, zone)
		ds := fixture.UnderPolicy(fixture.DaemonSet("driver"))
		s := seen{policy: fixture.PolicyWith(spec)}
		var pods []*corev1.Pod
		for i := range 10 {
			node := fixture.Node(fmt.Sprintf("n%d", i))
			node.Labels = map[string]string{"zone": []string{"a", zone}[i%2]}
			s.nodes, pods = append(s.nodes, node), append(pods, fixture.PodOn(ds, node.Name, fixture.OldHash))
		}
		s.members = []memberAndPods{memberWith(ds, pods...)}
		o := s.observe()
		o.Rollout.Annotations = map[string]string{topsv1.AnnotationApprovedWaves: approved}
		in := inputFrom(o)
		for _, n := range s.nodes {
			in.Nodes = append(in.Nodes, *o.fleet.Node(n.Name))
		}
		d := rollout.Plan(in)
		if _, err := policyOf(&spec); err != nil {
			if len(d.Started) > 0 || in.Blocked == nil || in.Blocked.Reason != daemonset.ReasonInvalidPolicy || !strings.Contains(in.Blocked.Message, s.policy.Name) {
				t.Fatalf("an invalid policy (%v) starts %v: %+v", err, d.Started, in.Blocked)
			}
			return
		}
		checkBudgets(t, &spec, &in, d.Started)
	})
}

// checkDrain checks that a selector that is none is an error, and that a pattern means what it says.
func checkDrain(t *testing.T, drain *topsv1.DrainPolicy, resource string) {
	policy, err := eviction.PolicyOf(drain)
	if drain == nil {
		return
	}
	if _, invalid := metav1.LabelSelectorAsSelector(drain.PodSelector); (err != nil) != (invalid != nil) {
		t.Errorf("selector %v: %v, want %v", drain.PodSelector, err, invalid)
	}
	want := slices.ContainsFunc(drain.Resources, func(pattern string) bool {
		middle, front := strings.CutPrefix(pattern, "*")
		middle, back := strings.CutSuffix(middle, "*")
		i := strings.Index(resource, middle)
		return (front || i == 0) && i >= 0 && (back || strings.HasSuffix(resource, middle)) && (front || back || resource == middle)
	})
	if got := policy.Accelerates(resource); got != want {
		t.Errorf("resource %q belongs to the accelerator %q: %t, want %t", resource, drain.Resources, got, want)
	}
}

// checkBudgets checks what a plan starts of the ten nodes.
func checkBudgets(t *testing.T, spec *topsv1.UpgradePolicySpec, in *rollout.Input, started []string) {
	if limit := allowed(spec.MaxUnavailable, 10); len(started) > limit {
		t.Errorf("%d nodes are started, at most %d may be unavailable", len(started), limit)
	}
	total, pools := map[string]int{}, map[string]int{}
	for _, n := range in.Nodes {
		total[n.Pool]++
	}
	for _, name := range started {
		for _, n := range in.Nodes {
			if n.Name != name {
				continue
			}
			pools[n.Pool]++
			if n.ZoneError != "" {
				t.Errorf("%s is started, but: %s", name, n.ZoneError)
			}
		}
	}
	if spec.Pools == nil {
		return
	}
	for pool, n := range pools {
		if limit := allowed(&spec.Pools.MaxUnavailable, total[pool]); n > limit {
			t.Errorf("%d nodes of pool %q are started, at most %d may be unavailable", n, pool, limit)
		}
	}
}

// allowed returns how many of total nodes may be unavailable; one if the value says nothing valid.
func allowed(most *intstr.IntOrString, total int) int {
	switch {
	case most == nil:
		return 1 // 10% of ten
	case most.Type == intstr.Int:
		return max(1, int(most.IntVal))
	}
	var percent int
	if n, err := fmt.Sscanf(most.StrVal, "%d%%", &percent); n != 1 || err != nil || percent < 1 || percent > 100 {
		return max(1, total*max(0, percent)/100+1)
	}
	return (percent*total + 99) / 100
}
