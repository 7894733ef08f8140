package main

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestAManagerThatNoPolicyBoundsSaysSo(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	for _, c := range []struct {
		name  string
		says  error
		warns bool
	}{
		{"a write that the policies refuse is accepted", nil, true},
		{"an administrator has such a ConfigMap", apierrors.NewAlreadyExists(configMaps, "x"), true},
		{"the policies refuse it", apierrors.NewForbidden(configMaps, "x", errors.New("policy")), false},
		{"a webhook refuses it, with the code of one that exists", &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonAlreadyExists,
			Message: `admission webhook "w" denied the request: no ConfigMaps`}}, false},
		{"the API server does not answer", errors.New("connection refused"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			dry := false
			api := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, _ client.Object, options ...client.CreateOption) error {
				dry = equality.Semantic.DeepEqual(options, []client.CreateOption{client.DryRunAll})
				return c.says
			}}).Build()
			warned := false
			log := funcr.New(func(_, _ string) { warned = true }, funcr.Options{})
			warnIfUnbounded(t.Context(), api, "elsewhere", log)
			if !dry || warned != c.warns {
				t.Errorf("asked with dry run: %t, warned: %t, want %t", dry, warned, c.warns)
			}
		})
	}
}
