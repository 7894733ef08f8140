package daemonupdater

import (
	"context"
	"net/http"
	"reflect"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/test/fixture"
)

// deniedAs is the denial of a webhook, which may choose any code and reason.
func deniedAs(code int32, reason metav1.StatusReason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: `admission webhook "no.example.com" denied the request: not on Fridays`}}
}

var (
	goneByAWebhook    = deniedAs(http.StatusNotFound, metav1.StatusReasonNotFound)
	invalidByAWebhook = deniedAs(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
)

// A webhook may deny with any code, also with those of an object that is gone, and of one that is invalid.
func TestAWriteThatIsDeniedWithAnyCodeIsRepeated(t *testing.T) {
	uncontrolled := func(ds *appsv1.DaemonSet) { delete(ds.Annotations, topsv1.AnnotationUpdateStrategy) }
	ota := func(ds *appsv1.DaemonSet) { fixture.Annotate(ds, topsv1.AnnotationUpdateStrategy, "OTA") }
	requested := func(c *cluster) {
		c.create(fixture.NodeUpgrade("a", fixture.Request("1", c.driver, fixture.PodOn(c.driver, "a", fixture.OldHash))))
	}
	gated := func(c *cluster) *corev1.Pod {
		pod := fixture.PodOn(c.driver, "a", fixture.NewHash)
		pod.Name, pod.UID = "driver-gated", "uid-gated"
		pod.Spec = corev1.PodSpec{Affinity: affinityTo("a"), SchedulingGates: []corev1.PodSchedulingGate{{Name: topsv1.GateAwaitingUpgrade}}}
		return pod
	}
	for name, tt := range map[string]struct {
		settings func(*appsv1.DaemonSet)
		denied   client.Object
		as       error
		before   func(*cluster)
		written  func(*cluster) bool
	}{
		"the conditions of a pod": {ota, &corev1.Pod{}, goneByAWebhook, func(*cluster) {}, func(c *cluster) bool {
			pod := fixture.PodOn(c.driver, "a", fixture.OldHash)
			return c.api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && daemonset.NeedUpgrade(pod) != nil
		}},
		"the answer to a request":                    {ota, &topsv1.NodeUpgrade{}, goneByAWebhook, requested, func(c *cluster) bool { return c.answered("a") != "" }},
		"the answer to a request, as if it were bad": {ota, &topsv1.NodeUpgrade{}, invalidByAWebhook, requested, func(c *cluster) bool { return c.answered("a") != "" }},
		"the release of a pod at the gate": {uncontrolled, &corev1.Pod{}, goneByAWebhook, func(c *cluster) {
			c.reconciler.Gate = func() gating.Mode { return gating.On }
			c.create(gated(c))
		}, func(c *cluster) bool {
			pod := gated(c)
			return c.api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && !daemonset.AwaitsUpgrade(pod)
		}},
		"the deletion of a rollout": {ota, &topsv1.DaemonRollout{}, goneByAWebhook, func(c *cluster) {
			c.mustReconcile()
			ds := c.driver.DeepCopy()
			uncontrolled(ds)
			if err := c.api.Patch(t.Context(), ds, client.MergeFrom(c.driver)); err != nil || c.stored().Name == "" {
				t.Fatalf("no rollout, or %v", err)
			}
		}, func(c *cluster) bool { return c.stored().Name == "" }},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, tt.settings)
			tt.before(c)
			denies := true
			c.reconciler.Client = interceptor.NewClient(c.reconciler.Client.(client.WithWatch), denying(tt.denied, tt.as, &denies))
			group := observed.GroupOf(c.driver)
			c.reconciler.changed.Add(group, "a")
			if _, err := c.reconciler.Reconcile(t.Context(), group); err == nil || !strings.Contains(err.Error(), "not on Fridays") {
				t.Errorf("the error is %v, want what the webhook says", err)
			}
			denies = false
			if _, err := c.reconciler.Reconcile(t.Context(), group); err != nil {
				t.Fatal(err)
			}
			if !tt.written(c) {
				t.Error("it is not written when the webhook permits it")
			}
		})
	}
}

// denying denies all writes to objects of a type for a while.
func denying(what client.Object, as error, active *bool) interceptor.Funcs {
	denied := func(o client.Object, write func() error) error {
		if *active && reflect.TypeOf(o) == reflect.TypeOf(what) {
			return as
		}
		return write()
	}
	return interceptor.Funcs{
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return denied(o, func() error { return w.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return denied(o, func() error { return w.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return denied(o, func() error { return w.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	}
}
