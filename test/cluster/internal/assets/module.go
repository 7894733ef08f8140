package assets

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ControlPlane is the Go module that the control plane is built from: its go.mod and
// go.sum, which pin every version, and the pause command. Under their usual names the
// two files would make this folder a separate module. It is embedded, so that
// testcluster runs from any directory.
//
//go:embed control-plane.mod control-plane.sum pause/main.go
var ControlPlane embed.FS

// File names of the module: here, and when it is built.
const (
	modFile = "control-plane.mod"
	sumFile = "control-plane.sum"
)

var moduleFiles = []struct{ name, built string }{{modFile, "go.mod"}, {sumFile, "go.sum"}, {"pause/main.go", "pause/main.go"}}

// binary is one program of the control plane.
type binary struct {
	name string
	// pkg is the package to build, an import path or a path in our own module.
	pkg string
	// module is the module in go.mod that determines the program's version.
	module string
}

const kubernetesModule = "k8s.io/kubernetes"

// binaries are the programs that a cluster needs, the fastest builds first.
var binaries = []binary{
	{name: "etcd", pkg: "go.etcd.io/etcd/server/v3", module: "go.etcd.io/etcd/server/v3"},
	{name: "kube-apiserver", pkg: kubernetesModule + "/cmd/kube-apiserver", module: kubernetesModule},
	{name: "kube-controller-manager", pkg: kubernetesModule + "/cmd/kube-controller-manager", module: kubernetesModule},
	{name: "kube-scheduler", pkg: kubernetesModule + "/cmd/kube-scheduler", module: kubernetesModule},
	{name: "kubectl", pkg: kubernetesModule + "/cmd/kubectl", module: kubernetesModule},
	{name: "kubelet", pkg: kubernetesModule + "/cmd/kubelet", module: kubernetesModule},
	{name: "pause", pkg: "./pause", module: kubernetesModule},
	{name: "kwok", pkg: "sigs.k8s.io/kwok/cmd/kwok", module: "sigs.k8s.io/kwok"},
}

// moduleVersion returns the version that goMod requires of the module, such as
// "v1.36.3". It ignores replace directives: no module in binaries is replaced.
func moduleVersion(goMod, module string) (string, error) {
	for line := range strings.Lines(goMod) {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) >= 2 && fields[0] == module && strings.HasPrefix(fields[1], "v") {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("no version of %s in go.mod", module)
}

// buildFlags returns the flags of go build. kubernetesVersion is the version that the
// programs report; without it they report v0.0.0.
func buildFlags(kubernetesVersion string) []string {
	major, minor := "1", "0"
	if parts := strings.Split(strings.TrimPrefix(kubernetesVersion, "v"), "."); len(parts) >= 2 {
		major, minor = parts[0], parts[1]
	}
	const version = "k8s.io/component-base/version."
	ldflags := fmt.Sprintf("-s -w -X %[1]sgitVersion=%[2]s -X %[1]sgitMajor=%[3]s -X %[1]sgitMinor=%[4]s",
		version, kubernetesVersion, major, minor)
	return []string{"-trimpath", "-ldflags", ldflags}
}

// cacheKey returns the name of the binaries' folder. It changes with every input of
// the build, so that a cached binary always has the right version.
func cacheKey(files fs.FS, kubernetesVersion string) (string, error) {
	hash := sha256.New()
	for _, file := range moduleFiles {
		data, err := fs.ReadFile(files, file.name)
		if err != nil {
			return "", fmt.Errorf("reading the embedded %s: %w", file.name, err)
		}
		fmt.Fprintf(hash, "%s %d\n%s", file.name, len(data), data)
	}
	fmt.Fprintf(hash, "%q", buildFlags(kubernetesVersion))
	return kubernetesVersion + "-" + hex.EncodeToString(hash.Sum(nil))[:12], nil
}

// writeModule writes the module's files into dir.
func writeModule(files fs.FS, dir string) error {
	for _, file := range moduleFiles {
		data, err := fs.ReadFile(files, file.name)
		if err != nil {
			return fmt.Errorf("reading the embedded %s: %w", file.name, err)
		}
		path := filepath.Join(dir, filepath.FromSlash(file.built))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("writing the control plane's module: %w", err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return fmt.Errorf("writing the control plane's module: %w", err)
		}
	}
	return nil
}
