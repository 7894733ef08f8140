package toolkit

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/pelletier/go-toml/v2"
)

// dockerConfig returns daemon.json with the runtime added.
func dockerConfig(config []byte, makeDefault bool) ([]byte, error) {
	all := map[string]any{}
	if len(bytes.TrimSpace(config)) > 0 {
		if err := json.Unmarshal(config, &all); err != nil {
			return nil, err
		}
	}
	runtimes, err := table(all, "runtimes")
	if err != nil {
		return nil, err
	}
	runtimes[name] = map[string]any{"path": installed}
	if makeDefault {
		all["default-runtime"] = name
	}
	return json.MarshalIndent(all, "", "    ")
}

// criPlugins are the names of the CRI plugin by configuration version.
var criPlugins = map[int64]string{2: "io.containerd.grpc.v1.cri", 3: "io.containerd.cri.v1.runtime"}

// containerdConfig returns config.toml with the runtime added, with runc's cgroup
// driver.
func containerdConfig(config []byte, makeDefault bool) ([]byte, error) {
	all := map[string]any{}
	if err := toml.Unmarshal(config, &all); err != nil {
		return nil, err
	}
	if len(all) == 0 {
		all["version"] = int64(2)
	}
	version, _ := all["version"].(int64)
	plugin := criPlugins[version]
	if plugin == "" {
		return nil, fmt.Errorf("unknown version %v", all["version"])
	}
	containerd, err := table(all, "plugins", plugin, "containerd")
	if err != nil {
		return nil, err
	}
	runtimes, err := table(containerd, "runtimes")
	if err != nil {
		return nil, err
	}
	options := map[string]any{"BinaryName": installed}
	if runc, err := table(runtimes, "runc", "options"); err != nil {
		return nil, err
	} else if systemd, found := runc["SystemdCgroup"]; found {
		options["SystemdCgroup"] = systemd
	}
	runc, _ := runtimes["runc"].(map[string]any)
	if runc["runtime_type"] == nil {
		delete(runtimes, "runc") // runc was not configured, and an entry without a type is invalid
	}
	runtimes[name] = map[string]any{"runtime_type": "io.containerd.runc.v2", "options": options}
	if makeDefault {
		containerd["default_runtime_name"] = name
	}
	return toml.Marshal(all)
}

// table returns a table within a table, and creates it if it is missing.
func table(in map[string]any, path ...string) (map[string]any, error) {
	for _, key := range path {
		if in[key] == nil {
			in[key] = map[string]any{}
		}
		next, isTable := in[key].(map[string]any)
		if !isTable {
			return nil, fmt.Errorf("%s is not a table", key)
		}
		in = next
	}
	return in, nil
}
