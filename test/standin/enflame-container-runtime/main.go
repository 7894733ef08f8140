// Enflame-container-runtime simulates the OCI runtime of that name: runc, with the
// cards added to containers that request them (docs/components.md 1.3).
//
// ENFLAME_VISIBLE_DEVICES is "all", or a comma-separated list of card numbers, with or
// without prefix "GCU-". Empty, "none" and "void" mean plain runc. Containers with
// cards also see the driver's files in /sys/module.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	if err := run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "enflame-container-runtime:", err)
		os.Exit(1)
	}
}

// run changes runc's bundle, if there is one, and executes runc.
func run(argv []string) error {
	if bundle := bundleOf(argv); bundle != "" {
		if err := changeBundle(filepath.Join(bundle, "config.json")); err != nil {
			return err
		}
	}
	runc, err := exec.LookPath("runc")
	if err != nil {
		return err
	}
	return syscall.Exec(runc, append([]string{runc}, argv[1:]...), os.Environ())
}

// bundleOf returns the value of --bundle, or "".
func bundleOf(argv []string) string {
	for i, arg := range argv {
		switch {
		case (arg == "--bundle" || arg == "-b") && i+1 < len(argv):
			return argv[i+1]
		case strings.HasPrefix(arg, "--bundle="):
			return strings.TrimPrefix(arg, "--bundle=")
		}
	}
	return ""
}

func changeBundle(path string) error {
	before, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	after, err := withCards(before, cards)
	if err != nil {
		return fmt.Errorf("changing %s: %w", path, err)
	}
	if bytes.Equal(before, after) {
		return nil
	}
	return os.WriteFile(path, after, 0o644)
}

// card is a device of the node.
type card struct {
	path         string
	major, minor int64
}

// cards returns the cards of the node.
func cards() ([]card, error) {
	paths, err := filepath.Glob("/dev/gcu[0-9]*")
	if err != nil {
		return nil, err
	}
	var found []card
	for _, path := range paths {
		var device syscall.Stat_t
		if err := syscall.Stat(path, &device); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		// Like glibc's major and minor.
		major := device.Rdev>>8&0xfff | device.Rdev>>32&^0xfff
		minor := device.Rdev&0xff | device.Rdev>>12&^0xff
		found = append(found, card{path, int64(major), int64(minor)})
	}
	return found, nil
}

// withCards returns the configuration of a container with its requested cards added.
func withCards(config []byte, cards func() ([]card, error)) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(config))
	decoder.UseNumber()
	var spec map[string]any
	if err := decoder.Decode(&spec); err != nil {
		return nil, err
	}
	wanted := visible(spec)
	if wanted == nil {
		return config, nil
	}
	present, err := cards()
	if err != nil {
		return nil, err
	}
	linux := table(spec, "linux")
	resources := table(linux, "resources")
	for _, c := range present {
		number := strings.TrimPrefix(filepath.Base(c.path), "gcu")
		if !slices.Contains(wanted, "all") && !slices.Contains(wanted, number) {
			continue
		}
		device := map[string]any{"path": c.path, "type": "c", "major": c.major, "minor": c.minor, "fileMode": 0o666, "uid": 0, "gid": 0}
		if !hasDevice(linux, c.path) {
			add(linux, "devices", device)
		}
		add(resources, "devices", map[string]any{"allow": true, "type": "c", "major": c.major, "minor": c.minor, "access": "rwm"})
	}
	add(spec, "mounts", map[string]any{"destination": "/sys/module", "type": "bind", "source": "/sys/module",
		"options": []string{"rbind", "rslave", "ro", "nosuid", "nodev", "noexec"}})
	return json.Marshal(spec)
}

// visible returns the cards that a container requests, without "GCU-"; nil for none.
func visible(spec map[string]any) []string {
	env, _ := table(spec, "process")["env"].([]any)
	value := ""
	for _, variable := range env {
		text, _ := variable.(string)
		if v, found := strings.CutPrefix(text, "ENFLAME_VISIBLE_DEVICES="); found {
			value = v
		}
	}
	if value == "" || value == "none" || value == "void" {
		return nil
	}
	return strings.Split(strings.ReplaceAll(value, "GCU-", ""), ",")
}

func hasDevice(linux map[string]any, path string) bool {
	devices, _ := linux["devices"].([]any)
	return slices.ContainsFunc(devices, func(d any) bool {
		device, _ := d.(map[string]any)
		return device["path"] == path
	})
}

// table returns an object within an object, and creates it if it is missing.
func table(in map[string]any, key string) map[string]any {
	t, isTable := in[key].(map[string]any)
	if !isTable {
		t = map[string]any{}
		in[key] = t
	}
	return t
}

// add appends to a list within an object.
func add(in map[string]any, key string, value any) {
	list, _ := in[key].([]any)
	in[key] = append(list, value)
}
