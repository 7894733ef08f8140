// Package toolkit simulates the container toolkit: it installs the enflame runtime on
// the node and makes it the default of docker and containerd (docs/components.md 1.3).
// It does not restart them.
package toolkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"time"
)

// name is the name of the runtime, installed the path of its program on the node.
const (
	name      = "enflame"
	installed = "/usr/bin/enflame-container-runtime"
)

// Toolkit is one version.
type Toolkit struct {
	// Host is the root of the node; its /etc is the node's.
	Host string
	// Program is the runtime in our image.
	Program string
	Version string
	// Engine is docker, containerd, or auto (the default): all engines on the node.
	Engine string
	// Delay is the time until the installer changes anything.
	Delay time.Duration
	// KeepDefault adds the runtime without making it the default.
	KeepDefault bool
}

// engine is a container engine and how its configuration is changed.
type engine struct {
	name   string
	config string
	socket string
	change func(config []byte, makeDefault bool) ([]byte, error)
}

var engines = []engine{
	{"docker", "etc/docker/daemon.json", "run/docker.sock", dockerConfig},
	{"containerd", "etc/containerd/config.toml", "run/containerd/containerd.sock", containerdConfig},
}

// Run installs the runtime and waits until ctx is done. The runtime stays on the node.
func (t Toolkit) Run(ctx context.Context) error {
	if t.Delay > 0 {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(t.Delay):
		}
	}
	if err := t.install(); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (t Toolkit) install() error {
	program, err := os.ReadFile(t.Program)
	if err != nil {
		return err
	}
	if err := t.replace(installed, program, 0o755); err != nil {
		return err
	}
	if err := t.replace("/etc/enflame-container-runtime/config.toml", []byte("version = \""+t.Version+"\"\n"), 0o644); err != nil {
		return err
	}
	configured := 0
	for _, e := range engines {
		if !t.means(e) {
			continue
		}
		if err := t.configure(e); err != nil {
			return fmt.Errorf("configuring %s: %w", e.name, err)
		}
		configured++
	}
	if configured == 0 {
		return fmt.Errorf("the node has no container engine for RUNTIME=%q", t.Engine)
	}
	return nil
}

// means reports whether an engine should be configured.
func (t Toolkit) means(e engine) bool {
	if t.Engine != "" && t.Engine != "auto" {
		return t.Engine == e.name
	}
	for _, path := range []string{e.config, e.socket} {
		if _, err := os.Lstat(filepath.Join(t.Host, path)); err == nil {
			return true
		}
	}
	return false
}

func (t Toolkit) configure(e engine) error {
	before, err := os.ReadFile(filepath.Join(t.Host, e.config))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	after, err := e.change(before, !t.KeepDefault)
	if err != nil {
		return fmt.Errorf("decoding /%s: %w", e.config, err)
	}
	if bytes.Equal(before, after) {
		return nil
	}
	log.Printf("changing /%s: %s must be restarted", e.config, e.name)
	return t.replace(e.config, after, 0o644)
}

// replace replaces a file of the node atomically, because a runtime may be running.
func (t Toolkit) replace(path string, data []byte, mode fs.FileMode) error {
	path = filepath.Join(t.Host, path)
	if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path+".new", data, mode); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
