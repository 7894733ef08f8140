package gcuresource

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/nodelabel"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
)

// A webhook may deny with any code, also with that of an object that is gone.
func TestAnObjectIsNotTakenForGoneBecauseAWebhookSaysSo(t *testing.T) {
	if err := topsv1.AddToScheme(scheme.Scheme); err != nil {
		t.Fatal(err)
	}
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: `admission webhook "w" denied the request: keep it`}}
	label := topsv1.LabelGcuPresent
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{label: "true"}, Annotations: map[string]string{topsv1.AnnotationOwnedLabels: label}}}
	kept := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: revisionNamespace, Name: "r"}}
	api := fake.NewClientBuilder().WithObjects(node, kept).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return denied
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return denied },
	}).Build()
	for what, err := range map[string]error{
		"the labels of a gr that is deleted": removeLabels(t.Context(), api, []*corev1.Node{node}, nodelabel.Inputs{}),
		"the labels of a node": func() error {
			_, err := (&NodeLabeler{Client: api, APIReader: api, Namespace: revisionNamespace}).Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(node)})
			return err
		}(),
		"a revision": revisionKeeper{Client: api, APIReader: api, namespace: revisionNamespace}.remove(t.Context(), kept),
	} {
		if !apierrors.IsNotFound(err) {
			t.Errorf("%s counts as removed: %v", what, err)
		}
	}
}

// A denial with the code of an object that exists says nothing about a cache: it is reported, and retried ever later.
func TestADeniedCreationIsNotTakenForAStaleCache(t *testing.T) {
	things := schema.GroupResource{Resource: "things"}
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonAlreadyExists, Message: `admission webhook "w" denied the request: no more of it`}}
	for want, err := range map[bool]error{true: apierrors.NewAlreadyExists(things, "x"), false: denied} {
		if got := stale(fmt.Errorf("applying: %w", err)); got != want {
			t.Errorf("%v: is stale: %t", err, got)
		}
	}
	tried := 0
	api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			tried++
			return denied
		},
	}).Build()
	keeper := revisionKeeper{Client: api, APIReader: api, namespace: revisionNamespace}
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: hero, UID: "uid-1"}}
	err := keeper.create(t.Context(), gr, &revision.History{Current: "r"})
	if err == nil || tried != 1 || !strings.Contains(err.Error(), "keeping the spec as revision r: "+denied.ErrStatus.Message) {
		t.Errorf("tried %d times: %v", tried, err)
	}
}
