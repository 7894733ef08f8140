package hosttasks

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/pkg/hostagent"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// fakeHost is the root of a host: files, and a docker in a process of its own, because
// process identity shows whether it was restarted.
type fakeHost struct {
	t    *testing.T
	root string

	mutex  sync.Mutex
	engine *exec.Cmd
	starts int
}

// newHost returns a host with two cards, driver 1.0, and a docker whose default runtime is
// runc.
func newHost(t *testing.T) *fakeHost {
	t.Helper()
	root, err := os.MkdirTemp("", "host") // a socket needs a short path
	if err != nil {
		t.Fatal(err)
	}
	h := &fakeHost{t: t, root: root}
	t.Cleanup(func() {
		if err := errors.Join(h.stopDocker(), os.RemoveAll(root)); err != nil {
			t.Error(err)
		}
	})
	for name, content := range map[string]string{
		"dev/gcu0": "", "dev/gcu1": "", "sys/module/enflame/version": "1.0\n", "proc/sys/kernel/random/boot_id": "boot-1\n",
		"proc/stat":              "cpu 1\nbtime 1700000000\n",
		"etc/docker/daemon.json": `{"default-runtime":"runc"}`, "var/lib/docker/x": "", "run/x": "", "images/x": "", "registry/x": "",
	} {
		h.write(name, content)
	}
	if err := h.startDocker(); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *fakeHost) path(name string) string { return filepath.Join(h.root, name) }

func (h *fakeHost) write(name, content string) {
	h.t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(h.path(name)), 0o755), os.WriteFile(h.path(name), []byte(content), 0o644)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fakeHost) remove(name string) {
	h.t.Helper()
	if err := os.Remove(h.path(name)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *fakeHost) configure(runtime string) {
	h.write("etc/docker/daemon.json", fmt.Sprintf(`{"default-runtime":%q}`, runtime))
}

func (h *fakeHost) has(image string) bool {
	_, err := os.Stat(h.path("images/" + hex.EncodeToString([]byte(image))))
	return err == nil
}

// restarts counts the starts of docker after the first one.
func (h *fakeHost) restarts() int {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.starts - 1
}

func (h *fakeHost) startDocker() error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.engine = exec.Command(os.Args[0], "docker", h.root)
	h.engine.Stderr = os.Stderr
	h.starts++
	if err := h.engine.Start(); err != nil {
		return err
	}
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		connection, err := net.Dial("unix", h.path("run/docker.sock"))
		if err == nil {
			return connection.Close()
		}
		if time.Now().After(deadline) {
			return err
		}
	}
}

func (h *fakeHost) stopDocker() error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.engine == nil {
		return nil
	}
	err := h.engine.Process.Kill()
	_ = h.engine.Wait() // it was killed
	h.engine = nil
	return errors.Join(err, os.Remove(h.path("run/docker.sock")))
}

// systemd restarts docker, unless a test overrides that.
type systemd struct {
	host    *fakeHost
	restart func(ctx context.Context) error
	mutex   sync.Mutex
	jobs    int
}

var _ hostagent.ServiceManager = (*systemd)(nil)

func (s *systemd) Busy(context.Context, task.Engine, string) (bool, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.jobs > 0, nil
}

func (s *systemd) job(add int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.jobs += add
}

func (s *systemd) Restart(ctx context.Context, _ task.Engine, _ string) error {
	if s.restart != nil {
		return s.restart(ctx)
	}
	return errors.Join(s.host.stopDocker(), s.host.startDocker())
}

// serveDocker plays dockerd on a host root until it is killed. Files describe its registry:
// registry/hold blocks pulls, registry/down refuses them, registry/password is required.
func serveDocker(root string) error {
	at := func(name string) string { return filepath.Join(root, name) }
	data, err := os.ReadFile(at("etc/docker/daemon.json"))
	if err != nil {
		return err
	}
	var config struct {
		DefaultRuntime string `json:"default-runtime"`
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return err
	}
	listener, err := net.Listen("unix", at("run/docker.sock"))
	if err != nil {
		return err
	}
	answer := func(w http.ResponseWriter, status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.47")
		path := r.URL.Path
		if strings.HasPrefix(path, "/v1.") {
			path = path[strings.Index(path[1:], "/")+1:]
		}
		switch {
		case path == "/_ping":
			_, _ = w.Write([]byte("OK"))
		case path == "/info":
			answer(w, http.StatusOK, map[string]any{"ServerVersion": "27.0", "DefaultRuntime": config.DefaultRuntime, "DockerRootDir": "/var/lib/docker"})
		case path == "/images/create":
			status, text := pullImage(r, at)
			answer(w, status, map[string]string{"message": text})
		case strings.HasPrefix(path, "/images/"):
			image := strings.TrimSuffix(strings.TrimPrefix(path, "/images/"), "/json")
			if _, err := os.Stat(at("images/" + hex.EncodeToString([]byte(image)))); err != nil {
				answer(w, http.StatusNotFound, map[string]string{"message": "no such image"})
				return
			}
			answer(w, http.StatusOK, map[string]string{"Id": "sha256:" + image})
		default:
			answer(w, http.StatusNotFound, map[string]string{"message": "not played: " + path})
		}
	}))
}

func pullImage(r *http.Request, at func(string) string) (status int, message string) {
	image := r.FormValue("fromImage") + ":" + r.FormValue("tag")
	exists := func(name string) bool { _, err := os.Stat(at(name)); return err == nil }
	for exists("registry/hold") {
		select {
		case <-r.Context().Done():
			return http.StatusInternalServerError, "the client disconnected"
		case <-time.After(time.Millisecond):
		}
	}
	if exists("registry/down") {
		return http.StatusInternalServerError, "the registry is down"
	}
	if password, err := os.ReadFile(at("registry/password")); err == nil {
		var given struct{ Password string }
		data, err := base64.URLEncoding.DecodeString(r.Header.Get("X-Registry-Auth"))
		if err != nil || json.Unmarshal(data, &given) != nil || given.Password != string(password) {
			return http.StatusInternalServerError, "unauthorized"
		}
	}
	if err := os.WriteFile(at("images/"+hex.EncodeToString([]byte(image))), nil, 0o644); err != nil {
		return http.StatusInternalServerError, err.Error()
	}
	return http.StatusOK, ""
}
