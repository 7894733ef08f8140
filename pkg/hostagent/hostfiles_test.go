package hostagent

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/topsops/gcu-operator/pkg/distribution"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// link puts symbolic links on a host.
func link(t *testing.T, root string, targets map[string]string) {
	t.Helper()
	for name, target := range targets {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.Symlink(target, path)); err != nil {
			t.Fatal(err)
		}
	}
}

// An administrator moves a directory to a larger disk and leaves a link: absolute links are those of
// the host too.
func TestLinksOfTheHost(t *testing.T) {
	const ranchers, toml = "run/k3s/containerd/containerd.sock", "[plugins.\"io.containerd.cri.v1.runtime\".containerd]\n  default_runtime_name = \"enflame\"\n"
	for name, test := range map[string]struct {
		files, links map[string]string
		socket       string
		unit         string
	}{
		"k3s on another disk": {map[string]string{ranchers: "", "data/rancher/k3s/agent/etc/containerd/config.toml": toml},
			map[string]string{"var/lib/rancher": "/data/rancher"}, ranchers, "k3s.service"},
		"k3s on another disk, by a relative link": {map[string]string{ranchers: "", "data/rancher/k3s/agent/etc/containerd/config.toml": toml},
			map[string]string{"var/lib/rancher": "../../data/rancher"}, ranchers, "k3s.service"},
		"RKE2 behind two links": {map[string]string{ranchers: "", "data/rke2/agent/etc/containerd/config.toml": toml},
			map[string]string{"var/lib/rancher": "/srv/rancher", "srv/rancher/rke2": "/data/rke2"}, ranchers, "rke2-server.service"},
		"k3s with another run directory": {map[string]string{"data/run/containerd/containerd.sock": "", "var/lib/rancher/k3s/agent/etc/containerd/config.toml": toml},
			map[string]string{"run/k3s": "/data/run"}, ranchers, "k3s.service"},
		"the current revision of MicroK8s": {map[string]string{"data/snap/microk8s/common/run/containerd.sock": "", "data/snap/microk8s/7394/args/containerd.toml": toml},
			map[string]string{"var/snap": "/data/snap", "data/snap/microk8s/current": "7394"}, "var/snap/microk8s/common/run/containerd.sock", "snap.microk8s.daemon-containerd.service"},
		"containerd of packages": {map[string]string{"data/c/config.toml": toml}, map[string]string{"etc/containerd": "/data/c"}, distribution.Packaged().Socket, "containerd.service"},
		"a drop-in of containerd": {map[string]string{"data/c/99-enflame.toml": toml, "etc/containerd/config.toml": "imports = [\"/etc/containerd/more/*.toml\"]\n"},
			map[string]string{"etc/containerd/more": "/data/c"}, distribution.Packaged().Socket, "containerd.service"},
	} {
		t.Run(name, func(t *testing.T) {
			h := host{root: fakeHost(t, test.files), paths: Paths{}.withDefaults()}
			link(t, h.root, test.links)
			runtime, _, err := h.configuredDefault(task.Containerd)
			if got, unit := h.socket(task.Containerd), h.unitsOf(task.Containerd)[0]; got != test.socket || unit != test.unit || runtime != "enflame" || err != nil {
				t.Errorf("socket %s of %s, default runtime %q, %v; want %s of %s", got, unit, runtime, err, test.socket, test.unit)
			}
		})
	}
}

func TestDockerBehindAbsoluteLinks(t *testing.T) {
	h := host{root: fakeHost(t, map[string]string{"data/docker/daemon.json": `{"default-runtime":"enflame"}`, "data/images/x": ""}), paths: Paths{DockerSocket: "var/run/docker.sock"}.withDefaults()}
	link(t, h.root, map[string]string{"etc/docker": "/data/docker", "var/lib/docker": "/data/images", "var/run": "/run"})
	if got, _, err := h.configuredDefault(task.Docker); got != "enflame" || err != nil {
		t.Errorf("default runtime %q, %v", got, err)
	}
	if got, err := freeDisk(h.root, "/var/lib/docker"); got <= 0 || err != nil {
		t.Errorf("%d bytes free, %v", got, err)
	}
	if err := os.Mkdir(filepath.Join(h.root, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	listening, err := net.Listen("unix", filepath.Join(h.root, "run/docker.sock"))
	if err != nil {
		t.Fatal(err)
	}
	instance, err := h.instanceOf(t.Context(), task.Docker)
	if err := errors.Join(err, listening.Close()); err != nil || instance == "" {
		t.Errorf("instance %q, %v", instance, err)
	}
}

// What is outside of the host root is the agent's own: no link of the host leads there.
func TestNoLinkLeavesTheHost(t *testing.T) {
	outside := fakeHost(t, map[string]string{"etc/containerd/config.toml": "", "k3s/agent/etc/containerd/config.toml": ""})
	for _, target := range []string{outside, strings.Repeat("../", 30) + outside[1:], "/proc/1/root" + outside, "/var/lib/rancher", "rancher"} {
		h := host{root: fakeHost(t, map[string]string{"run/k3s/containerd/containerd.sock": ""}), paths: Paths{}.withDefaults()}
		link(t, h.root, map[string]string{"var/lib/rancher": target})
		if got := h.containerd().Socket; got != distribution.Packaged().Socket {
			t.Errorf("behind a link to %s is %s", target, got)
		}
		files, err := openHost(h.root)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := fs.ReadFile(files, "var/lib/rancher/k3s/agent/etc/containerd/config.toml"); err == nil {
			t.Errorf("behind a link to %s is %q", target, got)
		}
		if err := files.close(); err != nil {
			t.Error(err)
		}
	}
}

// A link that appears after its path was resolved is refused.
func TestALinkThatIsPutThereMeanwhileDoesNotLeaveTheHost(t *testing.T) {
	outside := fakeHost(t, map[string]string{"secret": ""})
	root := fakeHost(t, map[string]string{"file": ""})
	link(t, root, map[string]string{"etc": outside})
	files, err := openHost(root)
	if err != nil {
		t.Fatal(err)
	}
	// With another root to resolve in, etc is no link when its path is resolved.
	files.path = fakeHost(t, map[string]string{"etc/secret": ""})
	if got, err := fs.ReadFile(files, "etc/secret"); err == nil {
		t.Errorf("read %q", got)
	}
	if err := files.close(); err != nil {
		t.Error(err)
	}
}
