// Package assets builds the programs of the control plane from Go modules and
// keeps them in a cache folder.
//
// A cold build takes minutes, so the name of the folder contains a hash of its
// inputs, and the folder is reused while they are unchanged. A program is built under
// a temporary name and renamed when complete, so a file with its final name is always
// complete. A lock prevents concurrent builds of one folder.
package assets

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/topsops/gcu-operator/test/cluster/internal/progress"
)

// Assets is a folder with the programs of one version. It may be used as
// KUBEBUILDER_ASSETS.
type Assets struct {
	// Dir is the absolute path of the folder.
	Dir string
	// KubernetesVersion is the version of the control plane, such as "v1.36.3".
	KubernetesVersion string

	modules []fs.FS
}

// Locate returns the folder for the programs of modules (Versions), whether or not it is built.
// cacheRoot is the parent folder of all versions, by default gcu-operator-testcluster
// in the user's cache folder.
func Locate(modules []fs.FS, cacheRoot string) (Assets, error) {
	root, err := resolveCacheRoot(cacheRoot)
	if err != nil {
		return Assets{}, err
	}
	version, _, err := versionIn(modules, binary{module: kubernetesModule})
	if err != nil {
		return Assets{}, err
	}
	key, err := cacheKey(modules, version)
	if err != nil {
		return Assets{}, err
	}
	return Assets{Dir: filepath.Join(root, key), KubernetesVersion: version, modules: modules}, nil
}

func resolveCacheRoot(root string) (string, error) {
	if root != "" {
		abs, err := filepath.Abs(root)
		if err != nil {
			return "", fmt.Errorf("resolving the cache folder %s: %w", root, err)
		}
		return abs, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the user's cache folder (set --cache-dir instead): %w", err)
	}
	return filepath.Join(cache, "gcu-operator-testcluster"), nil
}

// Path returns the path of one program, such as "kubectl".
func (a Assets) Path(name string) string { return filepath.Join(a.Dir, name) }

// Missing returns the names of the programs that are not built yet.
func (a Assets) Missing() []string {
	var names []string
	for _, b := range a.missing() {
		names = append(names, b.name)
	}
	return names
}

func (a Assets) missing() []binary {
	var missing []binary
	for _, b := range binaries {
		if info, err := os.Stat(a.Path(b.name)); err != nil || !info.Mode().IsRegular() {
			missing = append(missing, b)
		}
	}
	return missing
}

// Ensure builds missing programs. If another process is building the same folder, it
// waits for it.
func (a Assets) Ensure(ctx context.Context, out *progress.Printer) error {
	if len(a.missing()) == 0 {
		return nil
	}
	if err := os.MkdirAll(a.Dir, 0o755); err != nil {
		return fmt.Errorf("making the cache folder: %w", err)
	}
	unlock, err := lock(ctx, filepath.Join(a.Dir, ".lock"), func() {
		out.Printf("another testcluster is building the control plane, waiting for it ...")
	})
	if err != nil {
		return err
	}
	defer unlock()
	return a.build(ctx, out)
}
