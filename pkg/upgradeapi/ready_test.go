package upgradeapi

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/topsops/gcu-operator/test/apiserver"
)

func TestContractReady(t *testing.T) {
	server := apiserver.StartBare(t)
	config, c := server.As(apiserver.Admin), server.Client(t, apiserver.Admin)
	crds := []string{apiserver.CRDs}
	// comes waits until the check answers with an error that contains a text, "" for none.
	comes := func(when, text string) {
		t.Helper()
		var last string
		err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil)
			if err != nil {
				return false, err
			}
			err = Ready(c)(request)
			last = fmt.Sprint(err)
			return (err == nil) == (text == "") && strings.Contains(last, text), nil
		})
		if err != nil {
			t.Errorf("%s: %v: %s", when, err, last)
		}
	}
	t.Run("contract 77: not ready while the API server does not serve grs", func(t *testing.T) {
		comes("before the CRDs", "install the CRDs of gcu-operator")
		if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: crds}); err != nil {
			t.Fatal(err)
		}
		comes("with the CRDs", "")
		if err := envtest.UninstallCRDs(config, envtest.CRDInstallOptions{Paths: crds}); err != nil {
			t.Fatal(err)
		}
		comes("without them again", "install the CRDs of gcu-operator")
	})
	t.Run("contract 77: not ready while the API server is away", func(t *testing.T) {
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		comes("without an API server", "listing GcuResources: ")
	})
}
