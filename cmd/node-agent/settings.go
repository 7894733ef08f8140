//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/topsops/gcu-operator/pkg/hostagent"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/ota/guard"
)

// settings are validated options.
type settings struct {
	options
	address netip.AddrPort
	engine  task.Engine
	paths   hostagent.Paths
	// commands restart engines; an engine without one is restarted through systemd.
	commands map[task.Engine][]string
}

// validate returns a one-line error for the first invalid flag. It does not check the host:
// the agent reports what is missing there.
func (o options) validate() (settings, error) {
	if o.nodeName == "" {
		return settings{}, errors.New("--node-name is required, or NODE_NAME in the environment")
	}
	if problems := validation.IsDNS1123Subdomain(o.nodeName); len(problems) > 0 {
		return settings{}, fmt.Errorf("--node-name %q is not the name of a node: %s", o.nodeName, strings.Join(problems, "; "))
	}
	if o.stateDir == "" {
		return settings{}, errors.New("--state-dir is empty: name a directory that survives restarts of the node")
	}
	if o.spread < 0 {
		return settings{}, fmt.Errorf("--first-contact-spread %s is negative", o.spread)
	}
	if err := o.log.Validate(); err != nil {
		return settings{}, err
	}
	s := settings{options: o}
	if err := s.validateEndpoint(); err != nil {
		return settings{}, err
	}
	if err := s.validateHost(); err != nil {
		return settings{}, err
	}
	return s, nil
}

// validateEndpoint validates the flags of the OTA endpoint.
func (s *settings) validateEndpoint() (err error) {
	if s.auth != authToken && s.auth != authNone {
		return fmt.Errorf("--ota-auth %q is none of %s, %s", s.auth, authToken, authNone)
	}
	if (s.tlsCertFile == "") != (s.tlsKeyFile == "") {
		return errors.New("--ota-tls-cert-file and --ota-tls-key-file go together: give both or none")
	}
	if s.address, err = guard.Address(s.bindAddress, s.auth == authToken && s.tlsCertFile != ""); err != nil {
		return fmt.Errorf("--ota-bind-address %w", err)
	}
	s.tokenFile = cmp.Or(s.tokenFile, filepath.Join(s.stateDir, tokenFileName))
	if s.socket != "" && !filepath.IsAbs(s.socket) {
		return fmt.Errorf("--ota-socket %q is not an absolute path", s.socket)
	}
	if s.socketGroup < guard.NoGroup {
		return fmt.Errorf("--ota-socket-group %d is not the number of a group", s.socketGroup)
	}
	return nil
}

// validateHost validates the flags of the host.
func (s *settings) validateHost() (err error) {
	if !filepath.IsAbs(s.hostRoot) {
		return fmt.Errorf("--host-root %q is not an absolute path", s.hostRoot)
	}
	if s.logDir != "" && !filepath.IsAbs(s.logDir) {
		return fmt.Errorf("--log-dir %q is not an absolute path", s.logDir)
	}
	s.engine = task.Engine(s.runtime)
	switch s.engine {
	case task.Auto, task.Docker, task.Containerd:
	default:
		return fmt.Errorf("--container-runtime %q is none of auto, docker, containerd", s.runtime)
	}
	if err := s.validateContainerd(); err != nil {
		return err
	}
	if s.paths.DockerSocket, err = socket("--docker-endpoint", s.dockerEndpoint); err != nil {
		return err
	}
	s.commands = map[task.Engine][]string{}
	for _, c := range []struct {
		flag   string
		engine task.Engine
		argv   []string
	}{
		{"--restart-command-containerd", task.Containerd, s.restartContainerd},
		{"--restart-command-docker", task.Docker, s.restartDocker},
	} {
		if len(c.argv) == 0 {
			continue
		}
		if !filepath.IsAbs(c.argv[0]) {
			return fmt.Errorf("%s %q is not the absolute path of a program: give the flag once per argument, no shell reads it", c.flag, c.argv[0])
		}
		s.commands[c.engine] = c.argv
	}
	return nil
}

// validateContainerd validates what the flags say of the containerd of the host.
func (s *settings) validateContainerd() (err error) {
	if s.containerdEndpoint != "" {
		if s.paths.ContainerdSocket, err = socket("--container-runtime-endpoint", s.containerdEndpoint); err != nil {
			return err
		}
	}
	if s.containerdConfig != "" {
		if !filepath.IsAbs(s.containerdConfig) {
			return fmt.Errorf("--containerd-config %q is not an absolute path on the host", s.containerdConfig)
		}
		s.paths.ContainerdConfig = strings.TrimPrefix(filepath.Clean(s.containerdConfig), "/")
	}
	if s.containerdUnit != "" && !strings.HasSuffix(s.containerdUnit, ".service") {
		return fmt.Errorf("--containerd-unit %q is not the name of a service of systemd: it ends with .service", s.containerdUnit)
	}
	return nil
}

// socket returns an endpoint, unix:///path or /path, as a path below the host root.
func socket(flag, endpoint string) (string, error) {
	path := strings.TrimPrefix(endpoint, "unix://")
	if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
		return "", fmt.Errorf("%s %q is not a socket: unix:// and its absolute path on the host", flag, endpoint)
	}
	return strings.TrimPrefix(filepath.Clean(path), "/"), nil
}
