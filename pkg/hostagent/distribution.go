package hostagent

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
)

// containerd is where a containerd of the host is. Paths are relative to the host root.
type containerd struct {
	socket string
	// config is the file it reads. Others may be imported there.
	config string
	// templates are what a distribution makes config from whenever containerd starts; it uses
	// the first that exists.
	templates []string
	// units are the systemd units that may run it, of which a host has one.
	units []string
}

// packaged is the containerd of the packages of containerd and docker.
var packaged = containerd{
	socket: "run/containerd/containerd.sock",
	config: "etc/containerd/config.toml",
	units:  []string{"containerd.service"},
}

// distributions bring a containerd of their own, whose configuration they make anew at each
// start. Those of k3s and RKE2 have the same socket; the one whose configuration is there is
// the one of the host.
var distributions = []containerd{
	rancher("rke2", "rke2-server.service", "rke2-agent.service"),
	rancher("k3s", "k3s.service", "k3s-agent.service"),
	{ // MicroK8s
		socket:    "var/snap/microk8s/common/run/containerd.sock",
		config:    "var/snap/microk8s/current/args/containerd.toml",
		templates: []string{"var/snap/microk8s/current/args/containerd-template.toml"},
		units:     []string{"snap.microk8s.daemon-containerd.service"},
	},
}

func rancher(name string, units ...string) containerd {
	directory := path.Join("var/lib/rancher", name, "agent/etc/containerd")
	return containerd{
		socket:    "run/k3s/containerd/containerd.sock",
		config:    path.Join(directory, "config.toml"),
		templates: []string{path.Join(directory, "config-v3.toml.tmpl"), path.Join(directory, "config.toml.tmpl")},
		units:     units,
	}
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
