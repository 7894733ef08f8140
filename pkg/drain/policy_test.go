package drain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
)

// stored returns spec.drain, given in YAML, of an UpgradePolicy as stored by the API server.
func stored(t *testing.T, drain string) (*topsv1.DrainPolicy, error) {
	t.Helper()
	s := newStage(t)
	var spec map[string]any
	if err := yaml.Unmarshal([]byte(drain), &spec); err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"drain": spec}}}
	u.SetGroupVersionKind(topsv1.GroupVersion.WithKind("UpgradePolicy"))
	u.SetName(s.namespace)
	if err := s.admin.Create(t.Context(), u, client.FieldValidation("Strict")); err != nil {
		return nil, err
	}
	policy := &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.must(s.admin.Get(t.Context(), client.ObjectKeyFromObject(policy), policy))
	return policy.Spec.Drain, nil
}

func TestBadDrainPoliciesAreRefused(t *testing.T) {
	for _, tc := range []struct{ name, drain, says string }{
		{"an unknown scope", "{scope: Some}", `Unsupported value: "Some"`},
		{"an unknown action for unmanaged pods", "{unmanaged: Skip}", `Unsupported value: "Skip"`},
		{"an unknown action for emptyDir", "{emptyDir: Keep}", `Unsupported value: "Keep"`},
		{"Jobs that are waited for longer than for all", "{waitForJobsSeconds: 300}", "waitForJobsSeconds must be less than timeoutSeconds"},
		{"Jobs that are waited for longer than said for all", "{timeoutSeconds: 10, waitForJobsSeconds: 11}", "waitForJobsSeconds must be less"},
		{"no time at all", "{timeoutSeconds: 0}", "spec.drain.timeoutSeconds"},
		{"no grace, which no kubelet confirms", "{gracePeriodSeconds: 0}", "spec.drain.gracePeriodSeconds"},
		{"no resources", "{resources: []}", "spec.drain.resources"},
		{"a resource without a domain", "{resources: [cpu]}", "spec.drain.resources[0]"},
		{"a resource with a star in the middle", `{resources: ["enflame.com/*gcu"]}`, "spec.drain.resources[0]"},
		{"every path", `{devicePaths: ["/*"]}`, "spec.drain.devicePaths[0]"},
		{"a path that is not absolute", "{devicePaths: [dev/gcu0]}", "spec.drain.devicePaths[0]"},
		{"every driver", `{drivers: ["*"]}`, "spec.drain.drivers[0]"},
		{"a driver with a star in the middle", `{drivers: ["gcu.*.com"]}`, "spec.drain.drivers[0]"},
		{"an unknown key", "{force: true}", `unknown field "spec.drain.force"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := stored(t, tc.drain); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
		})
	}
}

func TestGoodDrainPoliciesAreAccepted(t *testing.T) {
	for _, drain := range []string{
		"{scope: All, emptyDir: Delete, unmanaged: Delete, gracePeriodSeconds: 1, timeoutSeconds: 3600, waitForJobsSeconds: 3599}",
		`{scope: None, podSelector: {matchLabels: {a: b}}, resources: ["enflame.com/gcu", "enflame.com/drs-*"], devicePaths: ["/dev"], drivers: ["gcu.example.com", "*.enflame.com", "gcu.*"]}`,
	} {
		if _, err := stored(t, drain); err != nil {
			t.Errorf("%s: %v", drain, err)
		}
	}
}

func TestTheDefaultsOfTheAPIServerAreThoseWithoutAPolicy(t *testing.T) {
	got, err := stored(t, "{}")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(eviction.DefaultPolicy(), *got); diff != "" {
		t.Error(diff)
	}
}
