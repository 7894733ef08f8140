package inquiry

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/preview"
)

// withVersions returns a site whose policy says which versions are allowed, and the upgrade of its driver to a new one.
func withVersions(t *testing.T) (Predictor, preview.Question) {
	t.Helper()
	of := func(version string) *topsv1.GcuResource {
		g := gr(func(s *topsv1.GcuResourceSpec) { s.Driver.Version = version })
		g.Annotations[topsv1.AnnotationUpgradePolicy] = "p"
		return g
	}
	a := site(t, of("1.5.0"), nil, &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: topsv1.UpgradePolicySpec{Versions: &topsv1.VersionPolicy{}}})
	return a, preview.Question{Present: of("1.5.0"), Wanted: of("1.6.0"), Approved: true}
}

// Whether versions are allowed, and which nodes a plan has, is no question to all pods of the cluster, whose list may take longer than
// the webhook has, or a call of the REST API.
func TestVersionsAreCheckedWithoutAListOfAllPods(t *testing.T) {
	a, q := withVersions(t)
	a.Live = interceptor.NewClient(a.Live.(client.WithWatch), interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		var of client.ListOptions
		_, pods := list.(*corev1.PodList)
		_, budgets := list.(*policyv1.PodDisruptionBudgetList)
		if of.ApplyOptions(options); budgets || pods && of.Namespace == "" {
			return errors.New("slow")
		}
		return c.List(ctx, list, options...)
	}})
	if _, err := a.Ask(t.Context(), q); err == nil {
		t.Error("the upgrade evicts nothing: this test shows nothing")
	}
	if _, wrong, err := a.PlanFile(t.Context(), q.Present, q.Wanted); err != nil || wrong != "" {
		t.Errorf("a plan: %s %v", wrong, err)
	}
	if answer, err := a.UnderVersions(t.Context(), q); err != nil || len(answer.Nodes)+len(answer.Left) != 2 {
		t.Errorf("%+v %v", answer, err)
	}
}

func TestWhatIsReadFromACache(t *testing.T) {
	a, q := withVersions(t)
	read, want := map[string]bool{}, map[string]bool{}
	note := func(o any) { read[strings.TrimSuffix(fmt.Sprintf("%T", o), "List")] = true }
	a.Reader = interceptor.NewClient(a.Reader.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			note(o)
			return c.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			note(list)
			return c.List(ctx, list, options...)
		}})
	for _, plan := range []string{"", "one"} {
		if q.Wanted.Annotations[topsv1.AnnotationUpgradePlan] = plan; plan == "" {
			delete(q.Wanted.Annotations, topsv1.AnnotationUpgradePlan)
		}
		if _, err := a.Ask(t.Context(), q); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range Cached() {
		want[fmt.Sprintf("%T", o)] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(read))); diff != "" {
		t.Error(diff)
	}
}

// A gr keeps the name of a plan that ended: under it nothing happens, which says nothing about the versions. Nor does it say
// what nodes waited for before the change.
//
// Contract 97.
func TestVersionsAreCheckedUnderAPlanThatIsNoLongerFollowed(t *testing.T) {
	followed := func(version string, edit func(*topsv1.GcuResource)) *topsv1.GcuResource {
		g := withDriver(version, edit)
		g.Annotations[topsv1.AnnotationUpgradePlan] = "ended"
		return g
	}
	drivers := map[string]string{"a": "1.4.0", "b": "1.4.0"}
	first, held := followed("1.4.0", nil), followed("1.6.0", nil)
	a := versionsSite(t, minorByMinor, first, held, drivers)
	onFirstRevision(t, a)
	const notAllowed = "the UpgradePolicy does not allow these versions: on 2 nodes, as on a: driver 1.4.0 > 1.6.1"
	exporter := func(g *topsv1.GcuResource) { g.Spec.Exporter.Version = "2" }
	ended, wrong, err := versionsSite(t, minorByMinor, withDriver("1.4.0", nil), nil, drivers).PlanFile(t.Context(), withDriver("1.4.0", nil), withDriver("1.5.0", nil))
	if err != nil || wrong != "" {
		t.Fatal(wrong, err)
	}
	ended.Name = "ended"
	if err := a.Reader.(client.Client).Create(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		wanted *topsv1.GcuResource
		want   string
	}{
		{"versions that are not allowed", followed("1.6.1", nil), notAllowed},
		{"something else", followed("1.6.0", exporter), ""},
		{"versions that are not allowed, without the plan", withDriver("1.6.1", nil), notAllowed},
		{"something else, without the plan", withDriver("1.6.0", exporter), ""},
		{"the plan is no longer named", withDriver("1.6.0", nil), ""},
	} {
		q := preview.Question{Present: held, Wanted: tt.wanted, Approved: true}
		if answer, err := a.Ask(t.Context(), q); err != nil || (answer.Blocked == "") != (tt.wanted.Annotations[topsv1.AnnotationUpgradePlan] == "") {
			t.Fatalf("the plan does not block the upgrade, which this test is about: %+v %v", answer, err)
		}
		for name, ask := range map[string]func() (*preview.Preview, error){
			"by the webhook":            func() (*preview.Preview, error) { return a.AskVersions(t.Context(), q) },
			"by the plugin or REST API": func() (*preview.Preview, error) { return a.UnderVersions(t.Context(), q) },
		} {
			if answer, err := ask(); err != nil || answer.Blocked != "" || len(answer.Left) != 2 || !strings.HasPrefix(answer.Refused(), tt.want) || tt.want == "" && answer.Refused() != "" {
				t.Errorf("%s, %s: %+v %v", tt.name, name, answer, err)
			}
		}
		if q.Present.Annotations[topsv1.AnnotationUpgradePlan] != "ended" {
			t.Error("the question was changed")
		}
	}
	inForce(t, a, held, ended)
	for name, wanted := range map[string]*topsv1.GcuResource{"followed": followed("1.6.0", exporter), "no longer named": withDriver("1.6.0", exporter)} {
		q := preview.Question{Present: held, Wanted: wanted, Approved: true}
		if answer, err := a.AskVersions(t.Context(), q); err != nil || answer.Refused() != "" {
			t.Errorf("something else, and the plan before it was in force, %s: %s %v", name, answer.Refused(), err)
		}
	}
	if err := a.Reader.(client.Client).Delete(t.Context(), ended); err != nil {
		t.Fatal(err)
	}
	if answer, err := a.AskVersions(t.Context(), preview.Question{Present: held, Wanted: followed("1.6.1", nil), Approved: true}); err != nil || !strings.HasPrefix(answer.Refused(), notAllowed) {
		t.Errorf("a plan that was deleted: %+v %v", answer, err)
	}
}

// A plan without what is not allowed is legitimate, also before the cache has it, or before anybody stored it.
//
// Contract 97.
func TestAPlanThatTheCacheLacksIsNoReasonToRefuse(t *testing.T) {
	present := withDriver("1.4.0", nil)
	wanted := withDriver("1.6.0", func(g *topsv1.GcuResource) {
		g.Spec.Exporter.Version = "2"
		g.Annotations[topsv1.AnnotationUpgradePlan] = "small"
	})
	a := versionsSite(t, minorByMinor, present, nil, map[string]string{"a": "1.4.0", "b": "1.4.0"})
	q := preview.Question{Present: present, Wanted: wanted, Approved: true}
	answer, err := a.AskVersions(t.Context(), q)
	if err != nil || answer.Blocked == "" || answer.Refused() != "" {
		t.Errorf("a plan that is not there yet: %+v %v", answer, err)
	}
	small, wrong, err := a.PlanFile(t.Context(), present, withDriver("1.4.0", func(g *topsv1.GcuResource) { g.Spec.Exporter.Version = "2" }))
	if err != nil || wrong != "" {
		t.Fatal(wrong, err)
	}
	small.Name = "small"
	if small.Spec.Revision, err = revision.Name(wanted); err != nil {
		t.Fatal(err)
	}
	stored := versionsSite(t, minorByMinor, present, nil, nil, small)
	a.Live = stored.Live
	answer, err = a.AskVersions(t.Context(), q)
	if err != nil || answer.Blocked != "" || answer.Refused() != "" || len(answer.Nodes) != 2 {
		t.Errorf("a plan that the cache does not have yet: %+v %v", answer, err)
	}
}

// inForce makes a stored plan one of the exporter alone, for the revision of a gr.
func inForce(t *testing.T, a Predictor, gr *topsv1.GcuResource, plan *topsv1.UpgradePlan) {
	t.Helper()
	var err error
	if plan.Spec.Revision, err = revision.Name(gr); err != nil {
		t.Fatal(err)
	}
	plan.Spec.Jobs[0].Stages = []topsv1.PlannedStage{{"exporter_replace"}}
	if err := a.Reader.(client.Client).Update(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	if answer, err := a.AskVersions(t.Context(), preview.Question{Present: gr, Wanted: gr, Approved: true}); err != nil || answer.Blocked != "" {
		t.Fatalf("the plan is not in force, which this test is about: %+v %v", answer, err)
	}
}
