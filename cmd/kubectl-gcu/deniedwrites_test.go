package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
)

// A webhook may deny with any code, also with that of an object that is gone.
func TestADenialIsSaidThoughItsCodeIsThatOfAMissingObject(t *testing.T) {
	s := newSite(t)
	s.upgraded("default", "back-denied", metav1.ConditionTrue)
	s.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "denied-1"}})
	u := s.upgrade("denied-1", func(u *topsv1.NodeUpgrade) {
		u.Annotations = map[string]string{topsv1.AnnotationHold: daemonset.HoldValue(time.Now(), "why")}
	})
	direct, err := client.NewWithWatch(s.config, client.Options{Scheme: s.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	denied := &cluster{namespace: operatorNamespace, Client: interceptor.NewClient(direct, interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			if writes++; writes > 50 {
				t.Fatal("it is tried again and again")
			}
			return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: `admission webhook "w" denied the request: keep it`}}
		}})}
	out := terminal{genericiooptions.NewTestIOStreamsDiscard()}
	for verb, run := range map[string]func() error{
		"release": func() error { return releaseNode(t.Context(), out, denied, u.Name) },
		"hold":    func() error { return holdNode(t.Context(), out, denied, u.Name, "another reason") },
		"abort":   func() error { return abortOperation(t.Context(), out, denied, u.Name) },
		"task undo": func() error {
			return requestPin(t.Context(), out, denied, u.Name, observed.VerbUndo, "back-denied_replace", false, 0)
		},
		"task retry": func() error {
			_, err := overrideTask(t.Context(), denied, u.Name, observed.VerbRetry, "denied-1_driver_verify")
			return err
		},
	} {
		writes = 0
		if err := run(); err == nil || !strings.Contains(err.Error(), "denied the request: keep it") || writes == 0 {
			t.Errorf("%s: %d writes, %v", verb, writes, err)
		}
	}
}

func schemeOf(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), topsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// A hold that is denied as if there were no NodeUpgrade creates none.
func TestADeniedHoldCreatesNothing(t *testing.T) {
	node, upgrade, writes := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, 0
	api := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(node, upgrade).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			writes++
			return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: `admission webhook "w" denied the request: keep it`}}
		}}).Build()
	err := holdNode(t.Context(), terminal{genericiooptions.NewTestIOStreamsDiscard()}, &cluster{Client: api}, node.Name, "why")
	if err == nil || !strings.Contains(err.Error(), "denied the request: keep it") || writes != 1 {
		t.Errorf("%d writes, %v", writes, err)
	}
}

// A denied creation is no reason to start over, and neither is a NodeUpgrade that is created and deleted again and again.
func TestANodeUpgradeThatCannotBeCreatedIsNotTriedForever(t *testing.T) {
	ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "back"}}
	rollout := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "back"}, Status: topsv1.DaemonRolloutStatus{
		Targets:    []topsv1.RevisionTarget{{DaemonSet: "default/back", Hash: "2"}},
		Conditions: []metav1.Condition{{Type: topsv1.RolloutGated, Status: metav1.ConditionTrue}}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new-1", UID: "uid-1"}}
	out := terminal{genericiooptions.NewTestIOStreamsDiscard()}
	verbs := map[string]func(*cluster) error{
		"hold": func(cl *cluster) error { return holdNode(t.Context(), out, cl, node.Name, "why") },
		"task undo": func(cl *cluster) error {
			return requestPin(t.Context(), out, cl, node.Name, observed.VerbUndo, "back_replace", false, 0)
		},
	}
	for _, tt := range []struct {
		name   string
		answer error
		says   []string
	}{
		{"denied by a webhook, with the code of one that exists", &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonAlreadyExists,
			Message: `admission webhook "w" denied the request: keep it`}}, []string{"creating the NodeUpgrade of node new-1", "denied the request: keep it", "try again when the node agent has created it"}},
		{"gone whenever it is read", apierrors.NewAlreadyExists(topsv1.GroupVersion.WithResource("nodeupgrades").GroupResource(), node.Name), []string{`"new-1" not found`}},
	} {
		for verb, run := range verbs {
			created := 0
			api := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(ds, rollout, node).WithInterceptorFuncs(interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
					if _, is := o.(*topsv1.NodeUpgrade); !is {
						return nil
					}
					if created++; created > 20 {
						t.Fatalf("%s, %s: it is tried again and again", verb, tt.name)
					}
					return tt.answer
				}}).Build()
			err := run(&cluster{namespace: operatorNamespace, Client: api})
			if created != 1 || err == nil {
				t.Errorf("%s, %s: %d creations, %v", verb, tt.name, created, err)
				continue
			}
			for _, says := range tt.says {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%s, %s: %q does not say %q", verb, tt.name, err, says)
				}
			}
		}
	}
}

// A NodeUpgrade that the node agent creates in between is changed.
func TestANodeUpgradeThatIsCreatedMeanwhileIsHeld(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new-1", UID: "uid-1"}}
	api := fake.NewClientBuilder().WithScheme(schemeOf(t)).WithObjects(node).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			upgrade, is := o.(*topsv1.NodeUpgrade)
			if !is {
				return nil
			}
			theirs := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: upgrade.Name}}
			if err := w.Create(ctx, theirs, opts...); err != nil {
				return err
			}
			return w.Create(ctx, o, opts...)
		}}).Build()
	if err := holdNode(t.Context(), terminal{genericiooptions.NewTestIOStreamsDiscard()}, &cluster{Client: api}, node.Name, "why"); err != nil {
		t.Fatal(err)
	}
	upgrade := &topsv1.NodeUpgrade{}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(node), upgrade); err != nil || daemonset.OfAdministrator(upgrade) == nil {
		t.Errorf("it is not held: %v, %v", upgrade.Annotations, err)
	}
}
