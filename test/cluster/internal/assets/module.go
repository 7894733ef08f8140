package assets

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
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

// others has a folder for each other version of Kubernetes, with the module that its programs are built from.
//
//go:embed kubernetes
var others embed.FS

// Versions returns the modules that a version of Kubernetes is built from, such as "1.37.1"; "" is that of ControlPlane.
// A program is built from the first that requires its module. The error names the versions that there are.
func Versions(kubernetes string) ([]fs.FS, error) {
	if kubernetes == "" {
		return []fs.FS{ControlPlane}, nil
	}
	goMod, err := ControlPlane.ReadFile(modFile)
	if err != nil {
		return nil, fmt.Errorf("reading the embedded %s: %w", modFile, err)
	}
	known, err := moduleVersion(string(goMod), kubernetesModule)
	if err != nil {
		return nil, err
	}
	version := "v" + strings.TrimPrefix(kubernetes, "v")
	if version == known {
		return []fs.FS{ControlPlane}, nil
	}
	folders, err := others.ReadDir("kubernetes")
	if err != nil {
		return nil, fmt.Errorf("listing the versions of Kubernetes: %w", err)
	}
	for _, folder := range folders {
		if folder.Name() == version {
			module, err := fs.Sub(others, path.Join("kubernetes", version))
			return []fs.FS{module, ControlPlane}, err
		}
		known += ", " + folder.Name()
	}
	return nil, fmt.Errorf("there is no Kubernetes %s here, but %s", version, known)
}

// File names of the module: here, and when it is built.
const (
	modFile = "control-plane.mod"
	sumFile = "control-plane.sum"
)

// binary is one program of the control plane.
type binary struct {
	name string
	// pkg is the package to build, an import path or a path in our own module.
	pkg string
	// module is the module in go.mod that determines the program's version; "" for a program of our own.
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
	{name: "pause", pkg: "./pause"},
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
func cacheKey(modules []fs.FS, kubernetesVersion string) (string, error) {
	hash := sha256.New()
	for _, module := range modules {
		files, err := read(module)
		if err != nil {
			return "", err
		}
		for _, file := range files {
			fmt.Fprintf(hash, "%s %d\n%s", file.name, len(file.data), file.data)
		}
	}
	fmt.Fprintf(hash, "%q", buildFlags(kubernetesVersion))
	return kubernetesVersion + "-" + hex.EncodeToString(hash.Sum(nil))[:12], nil
}

// file is one file of a module: its name here and when it is built, and what is in it.
type file struct {
	name, built string
	data        []byte
}

// read returns the files of a module; our own program may be missing.
func read(module fs.FS) ([]file, error) {
	files := []file{{name: modFile, built: "go.mod"}, {name: sumFile, built: "go.sum"}, {name: "pause/main.go", built: "pause/main.go"}}
	for i := range files {
		var err error
		files[i].data, err = fs.ReadFile(module, files[i].name)
		if i == len(files)-1 && errors.Is(err, fs.ErrNotExist) {
			return files[:i], nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading the embedded %s: %w", files[i].name, err)
		}
	}
	return files, nil
}

// versionIn returns the version of a program's module, and the index of the first of modules that requires it. A program
// of our own is in the last.
func versionIn(modules []fs.FS, b binary) (version string, index int, err error) {
	if b.module == "" {
		return "", len(modules) - 1, nil
	}
	for i, module := range modules {
		goMod, err := fs.ReadFile(module, modFile)
		if err != nil {
			return "", 0, fmt.Errorf("reading the embedded %s: %w", modFile, err)
		}
		if version, err = moduleVersion(string(goMod), b.module); err == nil {
			return version, i, nil
		}
	}
	return "", 0, fmt.Errorf("no version of %s in go.mod", b.module)
}

// writeModule writes a module's files into dir.
func writeModule(module fs.FS, dir string) error {
	files, err := read(module)
	if err != nil {
		return err
	}
	for _, file := range files {
		path := filepath.Join(dir, filepath.FromSlash(file.built))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("writing the control plane's module: %w", err)
		}
		if err := os.WriteFile(path, file.data, 0o644); err != nil {
			return fmt.Errorf("writing the control plane's module: %w", err)
		}
	}
	return nil
}
