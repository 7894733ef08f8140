package drain

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
	"github.com/topsops/gcu-operator/test/need"
)

// claim creates a ResourceClaim, allocated from a driver as the scheduler does; "" for none.
func (s *stage) claim(name, driver string) {
	s.t.Helper()
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
			{Name: "card", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "card"}}}}}}
	err := s.admin.Create(s.t.Context(), c)
	if meta.IsNoMatchError(err) {
		need.Skip(s.t, "pods with a device from a ResourceClaim, which need Kubernetes 1.34 or later: "+err.Error())
	}
	s.must(err)
	if driver == "" {
		return
	}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "card", Driver: driver, Pool: "n1", Device: "card-0"}}}}
	s.must(s.admin.Status().Update(s.t.Context(), c))
}

// claims makes a pod without a GCU name a ResourceClaim.
func claims(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		withoutGCU(p)
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "card", ResourceClaimName: &name}}
	}
}

// claimsFromTemplate makes a pod without a GCU have a generated ResourceClaim, nil for none yet.
func claimsFromTemplate(generated *string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		withoutGCU(p)
		template := "template"
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "card", ResourceClaimTemplateName: &template}}
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "card", ResourceClaimName: generated}}
	}
}

func TestAPodWithACardFromAResourceClaimIsEvicted(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	s.claim("gcu", "gcu.enflame.com")
	s.claim("nic", "nic.example.com")
	s.claim("pending", "")
	generated := "gcu"
	s.run(pod("named", claims("gcu")))
	s.run(pod("generated", claimsFromTemplate(&generated)))
	s.run(pod("not-generated", claimsFromTemplate(nil)))
	s.run(pod("extended", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"example.com/card": resource.MustParse("1")}
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "gcu",
			RequestMappings: []corev1.ContainerExtendedResourceRequest{{ContainerName: "main", ResourceName: "example.com/card", RequestName: "card"}}}
	}))
	s.run(pod("network", claims("nic")))
	s.run(pod("not-allocated", claims("pending")))
	s.run(pod("claim-gone", claims("gone")))
	r := s.pass(s.drainer(), defaultPolicy(t, nil), nil, 0)
	s.expect(r, map[string]eviction.State{"named": eviction.Evicted, "generated": eviction.Evicted, "extended": eviction.Evicted})
}

func TestThePolicyNamesTheDriversOfTheAccelerator(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	s.claim("gcu", "gcu.enflame.com")
	s.claim("chip", "chip.example.com")
	s.run(pod("theirs", claims("gcu")))
	s.run(pod("ours", claims("chip")))
	r := s.pass(s.drainer(), defaultPolicy(t, func(p *topsv1.DrainPolicy) { p.Drivers = []string{"chip.example.*"} }), nil, 0)
	s.expect(r, map[string]eviction.State{"ours": eviction.Evicted})
}

// An API server that does not serve resource.k8s.io/v1 must not make a node look empty.
func TestNoResourceClaimsAtAllIsNoAnswer(t *testing.T) {
	claims := schema.GroupResource{Group: resourcev1.GroupName, Resource: "resourceclaims"}
	discovery := apiutil.ErrResourceDiscoveryFailed{resourcev1.SchemeGroupVersion: apierrors.NewNotFound(claims, "")}
	for _, tc := range []struct {
		name string
		err  error
		want bool
	}{
		{"the claim does not exist", apierrors.NewNotFound(claims, "gcu"), true},
		{"no such API", apierrors.NewGenericServerResponse(http.StatusNotFound, "get", claims, "gcu", "404 page not found", 0, true), false},
		{"no such kind", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: resourcev1.GroupName, Kind: "ResourceClaim"}}, false},
		{"discovery fails", &discovery, false},
		{"no right", apierrors.NewForbidden(claims, "gcu", nil), false},
	} {
		if got := noClaim(tc.err); got != tc.want {
			t.Errorf("%s: %t, want %t", tc.name, got, tc.want)
		}
	}
}

// withoutClaims does not serve ResourceClaims, or does not answer.
type withoutClaims struct {
	client.Reader
	err error
}

func (r withoutClaims) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, is := o.(*resourcev1.ResourceClaim); is {
		return r.err
	}
	return r.Reader.Get(ctx, key, o, options...)
}

func TestAClaimThatCannotBeReadHoldsTheDrain(t *testing.T) {
	s := newStage(t)
	s.node("n1")
	s.claim("nic", "nic.example.com")
	s.run(pod("network", claims("nic")))
	s.run(pod("training"))
	s.run(pod("both", claims("nic"), func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Limits = gcus("1") }))
	s.run(pod("kept", claims("nic"), labeled("keep", "yes")))
	d := s.drainer()
	d.Live = withoutClaims{d.Live, errors.New("no response")}
	selective := defaultPolicy(t, func(p *topsv1.DrainPolicy) {
		p.PodSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "keep", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	})
	r := s.pass(d, selective, nil, 0)
	s.expect(r, map[string]eviction.State{"network": eviction.Failed, "training": eviction.Due, "both": eviction.Due, "kept": eviction.Skipped})
	if want := "failed, it is unknown whether it uses the accelerator: reading its ResourceClaim nic: no response: " + s.namespace + "/network"; !strings.Contains(r.Message(), want) {
		t.Errorf("%q, want %q in it", r.Message(), want)
	}
	s.expect(s.pass(d, defaultPolicy(t, func(p *topsv1.DrainPolicy) { p.Scope = topsv1.DrainAll }), nil, 0),
		map[string]eviction.State{"network": eviction.Evicted, "training": eviction.Evicted, "both": eviction.Evicted, "kept": eviction.Evicted})
}
