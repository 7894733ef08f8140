package main

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
