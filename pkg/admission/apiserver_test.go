package admission

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// asked are the changes that an API server asked about.
type asked struct {
	mutex   sync.Mutex
	reviews []admissionv1.AdmissionRequest
}

// take returns how many there were since the last call.
func (a *asked) take() (reviews []admissionv1.AdmissionRequest) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	reviews, a.reviews = a.reviews, nil
	return reviews
}

// serve has an API server ask the webhook, as config/webhook says.
func (a *asked) serve(t *testing.T, c client.Client, webhook http.Handler) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var review admissionv1.AdmissionReview
		if err != nil || json.Unmarshal(body, &review) != nil {
			t.Errorf("asked %s", body)
			return
		}
		a.mutex.Lock()
		a.reviews = append(a.reviews, *review.Request)
		a.mutex.Unlock()
		r.Body = io.NopCloser(bytes.NewReader(body))
		webhook.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "webhook", "configuration.yaml"))
	check(t, err)
	var configuration admissionregv1.ValidatingWebhookConfiguration
	check(t, yaml.UnmarshalStrict(text, &configuration))
	configuration.Webhooks[0].ClientConfig = admissionregv1.WebhookClientConfig{URL: ptr.To(server.URL + Path),
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	check(t, c.Create(t.Context(), &configuration))
	t.Cleanup(func() { check(t, c.Delete(context.Background(), &configuration)) })
}

// awaitCache waits until the cache of the API server has a gr as it is stored: a patch is first tried on the cached one, and
// admission is asked about that attempt too.
func awaitCache(ctx context.Context, c client.Client, gr *topsv1.GcuResource) error {
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		var cached, stored topsv1.GcuResource
		err := c.Get(ctx, client.ObjectKeyFromObject(gr), &cached, &client.GetOptions{Raw: &metav1.GetOptions{ResourceVersion: "0"}})
		if err == nil {
			err = c.Get(ctx, client.ObjectKeyFromObject(gr), &stored)
		}
		return cached.ResourceVersion == stored.ResourceVersion, err
	})
}

// An API server asks about changes of the spec only, whatever name a tool gives itself, and is answered.
func TestWhatAnAPIServerAsksAbout(t *testing.T) {
	s := apiserver.Shared(t)
	admin, operator := s.Client(t, apiserver.Admin), s.Client(t, apiserver.Operator)
	g := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gr", Finalizers: []string{"example.com/a", "example.com/b"}}, Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "1.0.0"}}}
	check(t, admin.Create(t.Context(), g))
	left := []preview.LeftNode{{Name: "n", Reason: "VersionNotAllowed", Message: "no step"}}
	v := &Versions{Predictor: &foretold{answer: preview.Preview{Rollout: preview.Rollout{Left: left}}}, Reader: admin, Semaphore: semaphore.NewWeighted(1), Now: time.Now, ResponseTimeout: time.Minute}
	var a asked
	a.serve(t, admin, v.Handler())
	patch := func(c client.Client, body string, options ...client.PatchOption) error {
		return c.Patch(t.Context(), g.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(body)), options...)
	}
	const to2, to3 = `{"spec":{"driver":{"version":"2.0.0"}}}`, `{"spec":{"driver":{"version":"3.0.0"}}}`
	check(t, wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
		return patch(admin, to2, client.DryRunAll) == nil && len(a.take()) > 0, nil // it knows the webhook
	}))
	for _, test := range []struct {
		name    string
		write   func() error
		asks    bool
		refused bool
	}{
		{"a change of the spec", func() error { return patch(admin, to2) }, true, true},
		{"by who calls itself the REST API", func() error { return patch(admin, to2, client.FieldOwner("gcu-upgrade-manager")) }, true, true},
		{"a dry run", func() error { return patch(admin, to2, client.DryRunAll) }, true, false},
		{"by the operator", func() error { return patch(operator, to2) }, false, false},
		{"of annotations", func() error { return patch(admin, `{"metadata":{"annotations":{"a":"b"}}}`) }, false, false},
		{"of finalizers", func() error { return patch(admin, `{"metadata":{"finalizers":["example.com/a"]}}`) }, false, false},
		{"to the same spec", func() error { return patch(admin, to2) }, false, false},
		{"the deletion", func() error { return admin.Delete(t.Context(), g.DeepCopy()) }, false, false},
		{"while it is being deleted", func() error { return patch(admin, to3) }, false, false},
		{"the end of the deletion", func() error { return patch(admin, `{"metadata":{"finalizers":null}}`) }, false, false},
	} {
		check(t, awaitCache(t.Context(), admin, g))
		err := test.write()
		if (err != nil) != test.refused || test.refused && !strings.Contains(err.Error(), "denied the request: the UpgradePolicy does not allow these versions: on 1 node, as on n: no step") {
			t.Errorf("%s: %v", test.name, err)
		}
		if asks := a.take(); (len(asks) > 0) != test.asks {
			t.Errorf("%s: asked about %d", test.name, len(asks))
		}
	}
}
