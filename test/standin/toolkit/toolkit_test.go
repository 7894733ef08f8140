package toolkit

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDockerConfig(t *testing.T) {
	for name, c := range map[string]struct {
		before      string
		makeDefault bool
		want        map[string]any
	}{
		"a missing configuration is created": {"", true, map[string]any{
			"default-runtime": "enflame", "runtimes": map[string]any{"enflame": map[string]any{"path": "/usr/bin/enflame-container-runtime"}}}},
		"existing settings are kept": {`{"live-restore": true, "default-runtime": "runc", "runtimes": {"kata": {"path": "/k"}}}`, true, map[string]any{
			"live-restore": true, "default-runtime": "enflame",
			"runtimes": map[string]any{"kata": map[string]any{"path": "/k"}, "enflame": map[string]any{"path": "/usr/bin/enflame-container-runtime"}}}},
		"the default can be kept": {`{"default-runtime": "runc"}`, false, map[string]any{
			"default-runtime": "runc", "runtimes": map[string]any{"enflame": map[string]any{"path": "/usr/bin/enflame-container-runtime"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			after, err := dockerConfig([]byte(c.before), c.makeDefault)
			check(t, err)
			var got map[string]any
			check(t, json.Unmarshal(after, &got))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			again, err := dockerConfig(after, c.makeDefault)
			check(t, err)
			if diff := cmp.Diff(string(after), string(again)); diff != "" {
				t.Errorf("a second time: %s", diff)
			}
		})
	}
}

const containerd = `
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "pause"
[plugins."io.containerd.grpc.v1.cri".containerd]
  default_runtime_name = "runc"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
  SystemdCgroup = true
`

func TestContainerdConfig(t *testing.T) {
	after, err := containerdConfig([]byte(containerd), true)
	check(t, err)
	var want, got map[string]any
	check(t, toml.Unmarshal([]byte(containerd), &want))
	check(t, toml.Unmarshal(after, &got))
	section := want["plugins"].(map[string]any)["io.containerd.grpc.v1.cri"].(map[string]any)["containerd"].(map[string]any)
	section["default_runtime_name"] = "enflame"
	section["runtimes"].(map[string]any)["enflame"] = map[string]any{"runtime_type": "io.containerd.runc.v2",
		"options": map[string]any{"BinaryName": "/usr/bin/enflame-container-runtime", "SystemdCgroup": true}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	again, err := containerdConfig(after, true)
	check(t, err)
	if diff := cmp.Diff(string(after), string(again)); diff != "" {
		t.Errorf("a second time: %s", diff)
	}
}

func TestUnknownConfigurationsAreNotChanged(t *testing.T) {
	if _, err := containerdConfig([]byte("version = 7\n"), true); err == nil {
		t.Error("version 7 is accepted")
	}
	if _, err := dockerConfig([]byte(`{"runtimes": []}`), true); err == nil {
		t.Error("runtimes that are a list are accepted")
	}
}

func TestTheRuntimeIsInstalledForTheEnginesOfTheNode(t *testing.T) {
	host := t.TempDir()
	program := filepath.Join(t.TempDir(), "runtime")
	check(t, os.WriteFile(program, []byte("program"), 0o700))
	toolkit := Toolkit{Host: host, Program: program, Version: "1.0.0", Engine: "auto"}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // it returns after the installation
	if err := toolkit.Run(ctx); err == nil {
		t.Error("a node without an engine is accepted")
	}
	check(t, os.MkdirAll(filepath.Join(host, "etc/containerd"), 0o755))
	check(t, os.WriteFile(filepath.Join(host, "etc/containerd/config.toml"), []byte(containerd), 0o600))
	check(t, toolkit.Run(ctx))
	info, err := os.Stat(filepath.Join(host, "usr/bin/enflame-container-runtime"))
	check(t, err)
	if info.Mode().Perm() != 0o755 {
		t.Errorf("the runtime has mode %s", info.Mode())
	}
	if _, err := os.Stat(filepath.Join(host, "etc/docker")); !os.IsNotExist(err) {
		t.Errorf("a node without docker has a docker configuration: %v", err)
	}
}
