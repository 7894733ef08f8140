package realnode

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/template"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/topsops/gcu-operator/test/cluster/internal/pki"
)

//go:embed files
var files embed.FS

// Software describes the programs of the nodes and the certificate they trust.
type Software struct {
	// Kubelet is the path of the program, PauseImage the path of the archive of the image
	// PauseTag.
	Kubelet, PauseImage string
	// CA is the path of the certificate that signs the API server's. Kubeconfig returns
	// the path of a node's kubeconfig.
	CA         string
	Kubeconfig func(node string) string
	// LeaseDuration is the duration of a node's lease.
	LeaseDuration time.Duration
}

// PauseTag is the image that holds a pod's namespaces open.
const PauseTag = "testcluster/pause:1"

// docker is the service that only Spec.DockerNode has.
const docker = "docker"

// services is the folder, in a node, for the logs of the kubelet, containerd and
// docker.
const services = "/var/log/services"

// Install creates the disks of all nodes. No node may be running.
func (n Nodes) Install(s Software) error {
	for _, name := range n.Names() {
		if err := n.install(name, s); err != nil {
			return fmt.Errorf("installing node %s: %w", name, err)
		}
	}
	return nil
}

func (n Nodes) install(name string, s Software) error {
	root := n.root(name)
	for _, folder := range []string{"dev", "home", "mnt", "opt", "proc", "root", "run", "srv", "sys",
		"usr/local/bin", "var/cache", "var/lib", "var/tmp", services} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink("../run", filepath.Join(root, "var/run")); err != nil {
		return err
	}
	temporary := filepath.Join(root, "tmp")
	if err := errors.Join(os.Mkdir(temporary, 0o777), os.Chmod(temporary, 0o777|fs.ModeSticky)); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(n.Logs, name), 0o755); err != nil {
		return err
	}
	layers, err := n.layers(name)
	if err != nil {
		return err
	}
	if err := n.configure(name, s); err != nil {
		return err
	}
	return n.writeBundle(name, s, layers)
}

// layers creates the overlays over the machine's folders with programs and their
// configuration, and returns their mounts.
func (n Nodes) layers(name string) ([]specs.Mount, error) {
	var mounts []specs.Mount
	for _, folder := range []string{"usr", "etc", "bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		info, err := os.Lstat("/" + folder)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			target, err := os.Readlink("/" + folder)
			if err == nil {
				err = os.Symlink(target, filepath.Join(n.root(name), folder))
			}
			if err != nil {
				return nil, err
			}
			continue
		}
		upper, work := n.layer(name, folder), filepath.Join(n.disk(name), "work", folder)
		if err := errors.Join(os.MkdirAll(upper, 0o755), os.MkdirAll(work, 0o755)); err != nil {
			return nil, err
		}
		mounts = append(mounts, specs.Mount{Destination: "/" + folder, Type: "overlay", Source: "overlay",
			Options: []string{"lowerdir=/" + folder, "upperdir=" + upper, "workdir=" + work}})
	}
	return mounts, nil
}

// layer is the folder of a node's changes to one of the machine's folders.
func (n Nodes) layer(name, folder string) string { return filepath.Join(n.disk(name), "layer", folder) }

// configure writes the node's own /etc, and hides the machine's configuration.
func (n Nodes) configure(name string, s Software) error {
	etc := n.layer(name, "etc")
	for _, folder := range []string{"cni", "containerd", "docker", "kubernetes"} {
		path := filepath.Join(etc, folder)
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if err := syscall.Setxattr(path, "trusted.overlay.opaque", []byte("y"), 0); err != nil {
			return fmt.Errorf("hiding the machine's /etc/%s (the cluster's directory must be on a disk): %w", folder, err)
		}
	}
	if err := n.writeFiles(name, s); err != nil {
		return err
	}
	for target, source := range map[string]string{"ca.crt": s.CA, "kubelet.kubeconfig": s.Kubeconfig(name), "pause.tar": s.PauseImage} {
		data, err := os.ReadFile(source)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(etc, "kubernetes", target), data, 0o600); err != nil {
			return err
		}
	}
	id, err := pki.Token()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(etc, "machine-id"), []byte(id[:32]+"\n"), 0o444)
}

// writeFiles renders the templates below etc, and writes a script in init.d for each
// service.
func (n Nodes) writeFiles(name string, s Software) error {
	i := n.index(name)
	values := map[string]any{
		"LeaseSeconds": int(s.LeaseDuration.Seconds()),
		"PodRange":     n.podRange(i),
		"NodeAddress":  n.nodeAddress(i),
		"PauseTag":     PauseTag,
	}
	templates, err := template.New("").Option("missingkey=error").ParseFS(files, "files/service")
	if err != nil {
		return err
	}
	etc := n.layer(name, "etc")
	return fs.WalkDir(files, "files/etc", func(path string, entry fs.DirEntry, err error) error {
		below := strings.TrimPrefix(path, "files/etc/")
		service, isService := strings.CutPrefix(below, "sv.node/")
		switch {
		case err != nil:
			return err
		case isService && service == docker && name != n.DockerNode:
			return fs.SkipDir
		case isService && entry.IsDir():
			return render(templates.Lookup("service"), filepath.Join(etc, "init.d", service), nil)
		case entry.IsDir():
			return nil
		}
		text, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		parsed, err := templates.New(below).Parse(string(text))
		if err != nil {
			return err
		}
		return render(parsed, filepath.Join(etc, below), values)
	})
}

// render renders a template to a file.
func render(t *template.Template, path string, values map[string]any) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	var out bytes.Buffer
	if err := t.Execute(&out, values); err != nil {
		return err
	}
	return os.WriteFile(path, out.Bytes(), 0o755)
}

// writeBundle writes runc's configuration.
func (n Nodes) writeBundle(name string, s Software, layers []specs.Mount) error {
	text, err := files.ReadFile("files/bundle.json")
	if err != nil {
		return err
	}
	var bundle specs.Spec
	if err := json.Unmarshal(text, &bundle); err != nil {
		return err
	}
	if bundle.Process.Capabilities, err = capabilities(); err != nil {
		return err
	}
	bundle.Hostname = name
	bundle.Mounts = append(bundle.Mounts, layers...)
	bundle.Mounts = append(bundle.Mounts,
		specs.Mount{Destination: "/usr/local/bin/kubelet", Type: "bind", Source: s.Kubelet, Options: []string{"bind", "ro"}},
		specs.Mount{Destination: services, Type: "bind", Source: filepath.Join(n.Logs, name), Options: []string{"bind"}})
	bundle.Linux.CgroupsPath = "/" + n.id(name)
	bundle.Linux.Namespaces = append(bundle.Linux.Namespaces,
		specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: "/run/netns/" + n.id(name)})
	text, err = json.MarshalIndent(bundle, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(n.disk(name), "config.json"), text, 0o600)
}

// capabilityNames are in the order of their bits (capability.h).
var capabilityNames = strings.Fields(`
	CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
	NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT
	SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE
	AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ
	PERFMON BPF CHECKPOINT_RESTORE`)

// capabilities returns our own capabilities: root may lack some on this machine.
func capabilities() (*specs.LinuxCapabilities, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	_, after, _ := strings.Cut(string(status), "\nCapEff:")
	line, _, _ := strings.Cut(after, "\n")
	bits, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		return nil, fmt.Errorf("reading our capabilities: %w", err)
	}
	var have []string
	for bit, name := range capabilityNames {
		if bits&(1<<bit) != 0 {
			have = append(have, "CAP_"+name)
		}
	}
	return &specs.LinuxCapabilities{Bounding: have, Effective: have, Permitted: have}, nil
}
