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
	"github.com/topsops/gcu-operator/pkg/preview"
)

// withVersions returns a site whose policy says which versions are allowed, and the upgrade of its driver to a new one.
func withVersions(t *testing.T) (Asker, preview.Question) {
	t.Helper()
	of := func(version string) *topsv1.GcuResource {
		g := gr(func(s *topsv1.GcuResourceSpec) { s.Driver.Version = version })
		g.Annotations[topsv1.AnnotationUpgradePolicy] = "p"
		return g
	}
	a := site(t, of("1.5.0"), nil, &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: topsv1.UpgradePolicySpec{Versions: &topsv1.VersionPolicy{}}})
	return a, preview.Question{Present: of("1.5.0"), Wanted: of("1.6.0"), Approved: true}
}

// Whether versions are allowed is not a question to all pods of the cluster, whose list may take longer than the webhook has.
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

// A gr keeps the name of a plan that ended: under it nothing happens, which says nothing about the versions.
//
// Contract 97.
func TestVersionsAreCheckedUnderAPlanThatIsNoLongerFollowed(t *testing.T) {
	a, q := withVersions(t)
	q.Wanted.Annotations[topsv1.AnnotationUpgradePlan] = "gone"
	if answer, err := a.Ask(t.Context(), q); err != nil || answer.Blocked == "" {
		t.Fatalf("the plan does not block the upgrade, which this test is about: %+v %v", answer, err)
	}
	for name, ask := range map[string]func() (*preview.Preview, error){
		"by the webhook":            func() (*preview.Preview, error) { return a.AskVersions(t.Context(), q) },
		"by the plugin or REST API": func() (*preview.Preview, error) { return a.UnderVersions(t.Context(), q) },
	} {
		if answer, err := ask(); err != nil || answer.Blocked != "" || len(answer.Nodes)+len(answer.Left) != 2 {
			t.Errorf("%s: %+v %v", name, answer, err)
		}
	}
	if q.Wanted.Annotations[topsv1.AnnotationUpgradePlan] != "gone" {
		t.Error("the question was changed")
	}
}
