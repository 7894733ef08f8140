package monitoring

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Program returns the path of prometheus or promtool: of the machine, else of Debian's package, which
// is unpacked into the user's cache and not installed, so that no service starts.
func Program(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache for %s: %w", name, err)
	}
	folder := filepath.Join(cache, "gcu-operator-tools", "prometheus")
	path := filepath.Join(folder, "usr", "bin", name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	return path, unpack(folder)
}

// unpack downloads the package and unpacks it, all of it or nothing.
func unpack(folder string) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return fmt.Errorf("unpacking prometheus: %w", err)
	}
	unpacked, err := os.MkdirTemp(filepath.Dir(folder), "prometheus-")
	if err != nil {
		return fmt.Errorf("unpacking prometheus: %w", err)
	}
	defer func() { _ = os.RemoveAll(unpacked) }() // renamed, unless something failed
	script := exec.Command("sh", "-ec", `apt-get download -qq prometheus || { apt-get update -qq; apt-get download -qq prometheus; }
		dpkg -x prometheus_*.deb .
		rm prometheus_*.deb`)
	script.Dir = unpacked
	if output, err := script.CombinedOutput(); err != nil {
		return fmt.Errorf("prometheus is not on this machine, and Debian's package cannot be had: %w: %s", err, output)
	}
	if err := os.Rename(unpacked, folder); err != nil && !os.IsExist(err) {
		return fmt.Errorf("unpacking prometheus: %w", err) // os.IsExist: another process was first
	}
	return nil
}
