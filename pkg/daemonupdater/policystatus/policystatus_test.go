package policystatus

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// site is an API server with one policy, in whose window a time zone can be mistaken.
type site struct {
	t      *testing.T
	client client.Client
	writes int
	fails  error
}

func newSite(t *testing.T, zone string) *site {
	check(t, topsv1.AddToScheme(scheme.Scheme))
	s := &site{t: t}
	policy := &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "sites", Generation: 1}, Spec: in(zone)}
	s.client = fake.NewClientBuilder().WithObjects(policy).WithStatusSubresource(policy).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, object client.Object, options ...client.SubResourceUpdateOption) error {
			if s.writes++; s.fails != nil {
				return s.fails
			}
			return c.SubResource(name).Update(ctx, object, options...)
		},
	}).Build()
	return s
}

func in(zone string) topsv1.UpgradePolicySpec {
	return topsv1.UpgradePolicySpec{Window: &topsv1.MaintenanceWindow{Start: "22:00", DurationMinutes: 60, TimeZone: zone}}
}

func (s *site) reconcile() error {
	r := &Reporter{Client: s.client}
	_, err := r.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "sites"}})
	return err
}

func (s *site) policy() *topsv1.UpgradePolicy {
	s.t.Helper()
	var policy topsv1.UpgradePolicy
	check(s.t, s.client.Get(s.t.Context(), client.ObjectKey{Name: "sites"}, &policy))
	return &policy
}

func (s *site) wants(generation int64, conditions map[string]string) {
	s.t.Helper()
	check(s.t, s.reconcile())
	policy, got := s.policy(), map[string]string{}
	for _, c := range policy.Status.Conditions {
		if got[c.Type] = string(c.Status) + "/" + c.Reason; c.ObservedGeneration != generation || c.LastTransitionTime.IsZero() || c.Message == "" {
			s.t.Errorf("condition of another generation, or without time or message: %+v", c)
		}
		if c.Reason != reasonAccepted && !strings.Contains(c.Message, `"Asia/Nowhere" is not an IANA time zone`) {
			s.t.Errorf("condition %s says %q, want what is wrong", c.Type, c.Message)
		}
	}
	if diff := cmp.Diff(conditions, got); diff != "" || policy.Status.ObservedGeneration != generation {
		s.t.Errorf("generation %d, want %d; conditions (-want +got):\n%s", policy.Status.ObservedGeneration, generation, diff)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestAMistakeIsInTheStatusUntilItIsMended(t *testing.T) {
	s := newSite(t, "Asia/Nowhere")
	s.wants(1, map[string]string{"Accepted": "False/InvalidUpgradePolicy", "Stalled": "True/InvalidUpgradePolicy"})
	mended := s.policy()
	mended.Spec, mended.Generation = in("Asia/Shanghai"), 2
	check(t, s.client.Update(t.Context(), mended))
	s.wants(2, map[string]string{"Accepted": "True/PolicyAccepted"})
	s.wants(2, map[string]string{"Accepted": "True/PolicyAccepted"})
	if s.writes != 2 {
		t.Errorf("%d writes, want one for each change", s.writes)
	}
}

func TestAWriteThatFailedIsRepeatedUnlessThePolicyHasChanged(t *testing.T) {
	resource := schema.GroupResource{Group: topsv1.GroupVersion.Group, Resource: "upgradepolicies"}
	for _, c := range []struct {
		err    error
		repeat bool
	}{
		{apierrors.NewConflict(resource, "sites", errors.New("it has changed")), false},
		{apierrors.NewNotFound(resource, "sites"), false},
		{&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Message: `admission webhook "w" denied the request: no`}}, true},
		{apierrors.NewInternalError(errors.New("etcd is away")), true},
	} {
		s := newSite(t, "UTC")
		s.fails = c.err
		if err := s.reconcile(); (err != nil) != c.repeat {
			t.Errorf("after %q the error is %v, want one: %v", c.err, err, c.repeat)
		}
	}
	s := newSite(t, "UTC")
	check(t, s.client.Delete(t.Context(), s.policy()))
	check(t, s.reconcile())
}
