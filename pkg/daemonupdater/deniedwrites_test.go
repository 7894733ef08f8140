package daemonupdater

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/podreplace/retry"
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

// A webhook may deny with any code, also with those of an object that is gone, and of one that is invalid. What it says is the error of
// the pass, or with after, how long it is until the write is repeated, in the log: then other writes go on.
func TestAWriteThatIsDeniedWithAnyCodeIsRepeated(t *testing.T) {
	uncontrolled := func(ds *appsv1.DaemonSet) { delete(ds.Annotations, topsv1.AnnotationUpdateStrategy) }
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
		after    time.Duration
		before   func(*cluster)
		written  func(*cluster) bool
	}{
		"the conditions of a pod": {underOTA, &corev1.Pod{}, goneByAWebhook, retry.First, func(*cluster) {}, func(c *cluster) bool {
			pod := fixture.PodOn(c.driver, "a", fixture.OldHash)
			return c.api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && daemonset.NeedUpgrade(pod) != nil
		}},
		"the answer to a request":                    {underOTA, &topsv1.NodeUpgrade{}, goneByAWebhook, 0, requested, func(c *cluster) bool { return c.answered("a") != "" }},
		"the answer to a request, as if it were bad": {underOTA, &topsv1.NodeUpgrade{}, invalidByAWebhook, 0, requested, func(c *cluster) bool { return c.answered("a") != "" }},
		"the release of a pod at the gate": {uncontrolled, &corev1.Pod{}, goneByAWebhook, 0, func(c *cluster) {
			c.reconciler.Gate = func() gating.Mode { return gating.On }
			c.create(gated(c))
		}, func(c *cluster) bool {
			pod := gated(c)
			return c.api.Get(t.Context(), client.ObjectKeyFromObject(pod), pod) == nil && !daemonset.AwaitsUpgrade(pod)
		}},
		"the deletion of a rollout": {underOTA, &topsv1.DaemonRollout{}, goneByAWebhook, 0, func(c *cluster) {
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
			logged, err := c.passLogged()
			if said := fmt.Sprint(err); tt.after == 0 && !strings.Contains(said, "not on Fridays") {
				t.Errorf("the error is %v, want what the webhook says", err)
			}
			if tt.after > 0 && (err != nil || !strings.Contains(logged, "not on Fridays")) {
				t.Errorf("error %v, and the log is %q, want there what the webhook says", err, logged)
			}
			denies = false
			c.now = c.now.Add(tt.after)
			if _, err := c.reconciler.Reconcile(t.Context(), group); err != nil {
				t.Fatal(err)
			}
			if !tt.written(c) {
				t.Error("it is not written when the webhook permits it")
			}
		})
	}
}

// passLogged makes a pass, and returns what it logs.
func (c *cluster) passLogged() (logged string, err error) {
	sink := funcr.New(func(_, line string) { logged += line + "\n" }, funcr.Options{})
	_, err = c.reconciler.Reconcile(log.IntoContext(c.t.Context(), sink), observed.GroupOf(c.driver))
	return logged, err
}

// needUpgrade returns the nodes whose pods have condition PodNeedUpgrade.
func (c *cluster) needUpgrade() (nodes string) {
	c.t.Helper()
	var list corev1.PodList
	if err := c.api.List(c.t.Context(), &list); err != nil {
		c.t.Fatal(err)
	}
	for i := range list.Items {
		if daemonset.NeedUpgrade(&list.Items[i]) != nil {
			nodes += list.Items[i].Spec.NodeName
		}
	}
	return nodes
}

// A policy may protect the pods of a namespace, and so those of one component, for good.
func TestConditionsThatAreDeniedHoldUpNothingElse(t *testing.T) {
	c := newCluster(t, underOTA)
	denies := true
	var tried atomic.Int32
	c.reconciler.Client = interceptor.NewClient(c.reconciler.Client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if _, isPod := o.(*corev1.Pod); isPod {
				tried.Add(1)
				if denies && o.GetName() != "driver-b" {
					return invalidByAWebhook
				}
			}
			return w.SubResource(sub).Patch(ctx, o, p, opts...)
		}})
	for i, step := range []struct {
		passed time.Duration
		tried  int32
	}{{0, 3}, {0, 3}, {retry.First, 5}, {retry.First, 5}, {retry.First, 7}} {
		c.now = c.now.Add(step.passed)
		if c.mustReconcile() == 0 {
			t.Errorf("pass %d: it is not repeated", i)
		}
		if tried.Load() != step.tried || c.needUpgrade() != "b" {
			t.Errorf("pass %d: %d patches, conditions on %s, want %d, and those on b", i, tried.Load(), c.needUpgrade(), step.tried)
		}
	}
	denies = false
	c.now = c.now.Add(10 * retry.First)
	if c.mustReconcile(); c.needUpgrade() != "abc" {
		t.Errorf("when it is allowed, the conditions are on %s", c.needUpgrade())
	}
}

// A group that has lost its strategy ends though the API server denies that the conditions of its pods are removed. While that cannot be
// decided, it does not.
func TestAGroupEndsThoughConditionsAreDenied(t *testing.T) {
	for name, tt := range map[string]struct {
		as   error
		ends bool
	}{
		"they are denied":                {invalidByAWebhook, true},
		"the webhook cannot be called":   {apierrors.NewInternalError(errors.New(`failed calling webhook "no.example.com": connection refused`)), false},
		"the API server cannot be asked": {errors.New("connection refused"), false},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, underOTA)
			c.mustReconcile()
			denies := true
			c.reconciler.Client = interceptor.NewClient(c.reconciler.Client.(client.WithWatch), denying(&corev1.Pod{}, tt.as, &denies))
			c.optOut()
			for range 2 {
				if _, err := c.reconcile(); (err == nil) != tt.ends || (c.stored().Name == "") != tt.ends {
					t.Errorf("error %v, and the rollout is %q", err, c.stored().Name)
				}
			}
			denies = false
			c.now = c.now.Add(retry.First)
			if c.mustReconcile(); c.stored().Name != "" || !tt.ends && c.needUpgrade() != "" {
				t.Errorf("the rollout is %q at last, and the conditions are on %s", c.stored().Name, c.needUpgrade())
			}
		})
	}
}

// What was denied a moment ago is tried again when the group ends: afterwards nothing takes the conditions away.
func TestAGroupThatEndsTriesAgainWhatWasDenied(t *testing.T) {
	c := newCluster(t, underOTA)
	c.mustReconcile()
	denies := true
	c.reconciler.Client = interceptor.NewClient(c.reconciler.Client.(client.WithWatch), denying(&corev1.Pod{}, invalidByAWebhook, &denies))
	c.newRevision("newer", 3)
	if logged, _ := c.passLogged(); !strings.Contains(logged, "Conditions of a Pod denied") {
		t.Fatalf("no patch was denied: %s", logged)
	}
	denies = false
	c.optOut()
	if c.mustReconcile(); c.stored().Name != "" || c.needUpgrade() != "" {
		t.Errorf("the rollout is %q, and the conditions are on %s", c.stored().Name, c.needUpgrade())
	}
}

// What is denied is tried later and later, so the group does not go round its pods for ever.
func TestALargeGroupEndsThoughConditionsAreDenied(t *testing.T) {
	c := newCluster(t, underOTA)
	for i := range 200 {
		name := fmt.Sprintf("n%03d", i)
		c.create(fixture.Node(name))
		c.create(fixture.PodOn(c.driver, name, fixture.OldHash))
	}
	second := func() {
		c.mustReconcile()
		c.now = c.now.Add(time.Second)
	}
	second()
	second()
	denies := true
	c.reconciler.Client = interceptor.NewClient(c.reconciler.Client.(client.WithWatch), denying(&corev1.Pod{}, invalidByAWebhook, &denies))
	c.optOut()
	for range 5 {
		second()
	}
	if c.stored().Name != "" {
		t.Error("the rollout is still there")
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
