package upgradeapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// failing is an API server that fails every list.
type failing struct {
	client.Reader
	err error
}

func (f failing) List(context.Context, client.ObjectList, ...client.ListOption) error { return f.err }

func TestReadyzReportsWhyNotReady(t *testing.T) {
	for err, want := range map[error]string{
		error(&meta.NoKindMatchError{GroupKind: grKind.GroupKind()}): "install the CRDs",
		error(apierrors.NewNotFound(grResource, "")):                 "install the CRDs",
		errors.New("connection refused"):                             "listing GcuResources: connection refused",
	} {
		if got := Ready(failing{err: err})(&http.Request{}); got == nil || !strings.Contains(got.Error(), want) {
			t.Errorf("%v: %v, want %s", err, got, want)
		}
	}
	if err := Ready(failing{})(&http.Request{}); err != nil {
		t.Error(err)
	}
}
