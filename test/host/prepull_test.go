package host

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// library is a registry on a loopback address that requires a password.
type library struct {
	address string
	asked   atomic.Int64 // requests for manifests
	hangs   atomic.Bool
}

var librarian = authn.AuthConfig{Username: "robot", Password: "s3cret"}

func openLibrary(t *testing.T) *library {
	t.Helper()
	l := &library{}
	books := registry.New()
	end := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != librarian.Username || password != librarian.Password {
			w.Header().Set("WWW-Authenticate", `Basic realm="library"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if strings.Contains(r.URL.Path, "/manifests/") {
			l.asked.Add(1)
		}
		if l.hangs.Load() {
			select {
			case <-end:
			case <-r.Context().Done():
			}
			return
		}
		books.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { close(end); server.Close() })
	l.address = strings.TrimPrefix(server.URL, "http://")
	return l
}

// image pushes an image without a runnable program.
func (l *library) image(t *testing.T, path string) string {
	t.Helper()
	image, err := random.Image(1024, 2)
	check(t, err)
	config, err := image.ConfigFile()
	check(t, err)
	config.OS, config.Architecture = "linux", runtime.GOARCH
	image, err = mutate.ConfigFile(image, config)
	check(t, err)
	l.push(t, path, image)
	return l.address + "/" + path
}

func (l *library) push(t *testing.T, path string, image v1.Image) {
	t.Helper()
	reference, err := name.ParseReference(l.address + "/" + path)
	check(t, err)
	check(t, remote.Write(reference, image, remote.WithAuth(authn.FromConfig(librarian))))
}

func secret(t *testing.T, registry string, credential authn.AuthConfig) corev1.Secret {
	t.Helper()
	config, err := json.Marshal(map[string]any{"auths": map[string]any{registry: map[string]string{
		"username": credential.Username, "password": credential.Password,
	}}})
	check(t, err)
	return corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: config}}
}

func TestPrepull(t *testing.T) {
	for _, engine := range []task.Engine{task.Docker, task.Containerd} {
		t.Run(string(engine), func(t *testing.T) {
			d, l := startEngine(t, engine), openLibrary(t)
			e, err := hostagent.New(optionsOf(d, t.TempDir()))
			check(t, err)
			good, bad := secret(t, l.address, librarian), secret(t, l.address, authn.AuthConfig{Username: "robot", Password: "old"})
			pull := func(id string, p task.Prepull) task.Result {
				t.Helper()
				result, err := e.Execute(context.Background(), task.Request{ID: id, Task: "driver_prepull", Prepull: &p})
				check(t, err)
				return result
			}
			want := func(got task.Result, state topsv1.HostTaskState, reason task.Reason, attempts int) {
				t.Helper()
				if got.State != state || got.Reason != reason || got.Attempts != attempts || (got.State == topsv1.HostTaskDone) != (len(got.Facts.Images) > 0) {
					t.Errorf("result is %+v, want %s %s of attempt %d", got, state, reason, attempts)
				}
				if strings.Contains(fmt.Sprint(got), librarian.Password) {
					t.Errorf("the result contains a password: %+v", got)
				}
			}
			image := l.image(t, "gcu/gcu-driver:1.0")
			want(pull("op", task.Prepull{Images: []string{image}}), topsv1.HostTaskFailed, task.ReasonPullFailed, 1)
			want(pull("op", task.Prepull{Images: []string{image}, Secrets: []corev1.Secret{bad}}), topsv1.HostTaskFailed, task.ReasonPullFailed, 2)
			want(pull("op", task.Prepull{Images: []string{image}, Secrets: []corev1.Secret{bad, good}}), topsv1.HostTaskDone, task.ReasonPulled, 3)

			asked := l.asked.Load()
			want(pull("op", task.Prepull{Images: []string{image}}), topsv1.HostTaskDone, task.ReasonPresent, 4)
			if l.asked.Load() != asked {
				t.Error("an existing image was requested from the registry")
			}
			want(pull("none", task.Prepull{Images: []string{l.address + "/gcu/none:1.0"}, Secrets: []corev1.Secret{good}}), topsv1.HostTaskFailed, task.ReasonPullFailed, 1)

			slow := l.image(t, "gcu/slow:1.0")
			l.hangs.Store(true)
			want(pull("slow", task.Prepull{Images: []string{slow}, Secrets: []corev1.Secret{good}, Timeout: 2 * time.Second}), topsv1.HostTaskFailed, task.ReasonPullTimedOut, 1)
			l.hangs.Store(false)
			want(pull("slow", task.Prepull{Images: []string{slow}, Secrets: []corev1.Secret{good}}), topsv1.HostTaskDone, task.ReasonPulled, 2)
		})
	}
}
