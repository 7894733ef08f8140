package hostagent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// configuredDefault returns the default runtime that an engine will have after a restart,
// according to the configuration files. named is false when they set none: they are absent,
// or the daemon's flags may set it.
func (h host) configuredDefault(e task.Engine) (runtime string, named bool, err error) {
	files, err := openHost(h.root)
	if err != nil {
		return "", false, err
	}
	defer func() { err = errors.Join(err, files.close()) }()
	if e == task.Docker {
		return dockerDefault(files, h.paths.DockerConfig)
	}
	at := h.containerd()
	next, err := templateDefault(files, at.Templates)
	if err != nil {
		return "", false, err
	}
	return containerdDefault(files, at.Config, next)
}

// dockerDefault reads daemon.json.
func dockerDefault(host fs.FS, file string) (runtime string, named bool, err error) {
	data, err := fs.ReadFile(host, file)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("reading the configuration of docker: %w", err)
	}
	var config struct {
		DefaultRuntime string `json:"default-runtime"`
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return "", false, nil
	}
	if err := json.Unmarshal(data, &config); err != nil {
		return "", false, fmt.Errorf("decoding /%s: %w", file, err)
	}
	return config.DefaultRuntime, config.DefaultRuntime != "", nil
}

// maxConfigFiles bounds the number of configuration files read.
const maxConfigFiles = 100

// containerdDefault reads config.toml, its imports and the drop-ins in conf.d; a later file
// overrides an earlier one. next is what config.toml will name after a start, "" if that is what it
// names now.
func containerdDefault(host fs.FS, file, next string) (runtime string, named bool, err error) {
	var read []string
	pending := []string{file}
	for len(pending) > 0 && len(read) < maxConfigFiles {
		name := pending[0]
		pending = pending[1:]
		if slices.Contains(read, name) {
			continue
		}
		read = append(read, name)
		data, err := fs.ReadFile(host, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", false, fmt.Errorf("reading the configuration of containerd: %w", err)
		}
		config, err := parseContainerd(data)
		if err != nil {
			return "", false, fmt.Errorf("decoding /%s: %w", name, err)
		}
		if name == file && next != "" {
			config.runtime = next
		}
		if config.runtime != "" {
			runtime, named = config.runtime, true
		}
		imports := config.imports
		if name == file {
			imports = append(imports, path.Join("/", path.Dir(file), "conf.d", "*.toml"))
		}
		for _, pattern := range imports {
			matches, err := fs.Glob(host, inHost(name, pattern))
			if err != nil {
				return "", false, fmt.Errorf("import %q of /%s: %w", pattern, name, err)
			}
			pending = append(pending, matches...)
		}
	}
	return runtime, named, nil
}

// inHost returns an import as a path below the host root.
func inHost(file, pattern string) string {
	if !path.IsAbs(pattern) {
		pattern = path.Join("/", path.Dir(file), pattern)
	}
	return strings.TrimPrefix(path.Clean(pattern), "/")
}

// containerdFile is the relevant content of one file.
type containerdFile struct {
	imports []string
	runtime string
}

// criPlugins are the names of the CRI plugin in containerd 1.x (configuration versions 1 and
// 2) and 2.x (version 3).
var criPlugins = []string{"cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"}

func parseContainerd(data []byte) (containerdFile, error) {
	var config struct {
		Imports []string       `toml:"imports"`
		Plugins map[string]any `toml:"plugins"`
	}
	if err := toml.Unmarshal(data, &config); err != nil {
		return containerdFile{}, err
	}
	parsed := containerdFile{imports: config.Imports}
	for _, name := range criPlugins {
		plugin, _ := config.Plugins[name].(map[string]any)
		section, _ := plugin["containerd"].(map[string]any)
		if runtime, _ := section["default_runtime_name"].(string); runtime != "" {
			parsed.runtime = runtime
		}
	}
	return parsed, nil
}

// defaultInTemplate matches the default runtime in a template, which is no TOML. What the
// template itself fills in is none.
var defaultInTemplate = regexp.MustCompile(`(?m)^\s*default_runtime_name\s*=\s*["']([\w.-]+)["']`)

// templateDefault returns the default runtime that the first template that exists names, ""
// if it names none.
func templateDefault(host fs.FS, templates []string) (runtime string, err error) {
	for _, file := range templates {
		data, err := fs.ReadFile(host, file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("reading the template of the configuration of containerd: %w", err)
		}
		if match := defaultInTemplate.FindSubmatch(data); match != nil {
			return string(match[1]), nil
		}
		return "", nil
	}
	return "", nil
}
