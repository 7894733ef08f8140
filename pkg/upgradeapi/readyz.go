package upgradeapi

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Ready returns a readiness check that fails while the API server does not serve grs, for
// example without the operator's CRDs (contract statement 77). c reads without a cache.
func Ready(c client.Reader) func(*http.Request) error {
	return func(request *http.Request) error {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(grKind.GroupVersion().WithKind(grKind.Kind + "List"))
		err := c.List(request.Context(), list, client.Limit(1))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return errors.New("the API server does not serve GcuResources: install the CRDs of gcu-operator")
		}
		if err != nil {
			return fmt.Errorf("listing GcuResources: %w", err)
		}
		return nil
	}
}
