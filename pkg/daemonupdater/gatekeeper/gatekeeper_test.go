package gatekeeper

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/deletion"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/watch"
)

// A webhook may deny with any code, also with that of a pod that exists already: then nothing was restored.
func TestADeniedRestoreIsNotTakenForOneThatWasMade(t *testing.T) {
	gated := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "gated", UID: "uid-gated"},
		Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: topsv1.GateAwaitingUpgrade}}}}
	earlier := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "earlier"}}
	for name, tt := range map[string]struct {
		answer error
		says   string
	}{
		"another pass was first": {apierrors.NewAlreadyExists(schema.GroupResource{Resource: "pods"}, "earlier"), ""},
		"a webhook denies it": {&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonAlreadyExists,
			Message: `admission webhook "w" denied the request: not on Fridays`}}, "creating Pod kube-system/earlier: admission webhook \"w\" denied the request: not on Fridays"},
	} {
		created := 0
		api := interceptor.NewClient(fake.NewClientBuilder().WithObjects(gated.DeepCopy()).Build(), interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				created++
				return tt.answer
			}})
		a := gating.Action{Waiting: gating.Waiting{Pod: gated, DaemonSet: &appsv1.DaemonSet{}, Node: &corev1.Node{}}, Restore: earlier.DeepCopy()}
		err := Gatekeeper{Cluster: access.Cluster{Client: api, Live: api}}.carryOut(t.Context(), &a)
		if created != 1 || (err != nil) != (tt.says != "") || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %d creations, %v", name, created, err)
		}
	}
}

// A node gets a slot while nothing may be created on it, and the other way round.
func TestADenialDelaysOnlyWhatWasDenied(t *testing.T) {
	gated := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "gated", UID: "uid-gated"},
		Spec: corev1.PodSpec{SchedulingGates: []corev1.PodSchedulingGate{{Name: topsv1.GateAwaitingUpgrade}}}}
	var tried string
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "gated", errors.New("exceeded quota"))
	api := interceptor.NewClient(fake.NewClientBuilder().WithObjects(gated.DeepCopy()).Build(), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			tried += "restore "
			return denied
		},
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			tried += "release "
			return denied
		}})
	var attempts deletion.AllAttempts
	kind := func(a *deletion.Attempts) access.RequestKind {
		return access.RequestKind{Attempts: a, Changed: &watch.ChangedNodes{}}
	}
	k := Gatekeeper{Cluster: access.Cluster{Client: api, Live: api}, Releases: kind(&attempts.Releases), Restores: kind(&attempts.Restores)}
	p := &pass.Pass{State: &observed.State{}}
	waiting := gating.Waiting{Pod: gated, DaemonSet: &appsv1.DaemonSet{}, Node: &corev1.Node{}}
	restore := gating.Action{Waiting: waiting, Restore: &corev1.Pod{}}
	release := gating.Action{Waiting: waiting, Release: true}
	for _, a := range []gating.Action{restore, restore, release, release, restore} {
		if err := k.try(t.Context(), p, &a); err != nil {
			t.Fatal(err)
		}
	}
	if tried != "restore release restore " {
		t.Errorf("tried: %s", tried)
	}
}
