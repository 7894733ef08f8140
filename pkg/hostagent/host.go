package hostagent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/topsops/gcu-operator/pkg/distribution"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// mainPIDs returns the main process of an engine's service, 0 when it is not running.
type mainPIDs func(context.Context, task.Engine) (int, error)

// host locates the files and sockets of the node.
type host struct {
	root  string
	paths Paths
	// units are the systemd units of engines that are not their usual ones.
	units map[task.Engine]string
	// services returns the main processes of services; nil without systemd.
	services mainPIDs
	// podUID is that of the agent's pod, "" outside a pod.
	podUID string
	reads  *reads
}

// Paths on the host, relative to its root. Symbolic links in them are those of the host.
type Paths struct {
	DockerSocket     string // default run/docker.sock
	DockerConfig     string // default etc/docker/daemon.json
	CRIDockerdSocket string // default run/cri-dockerd.sock
	ContainerdSocket string // default: of the k3s, RKE2 or MicroK8s of the host, else run/containerd/containerd.sock
	ContainerdConfig string // default: of the containerd with that socket, else etc/containerd/config.toml
	SystemBus        string // default run/dbus/system_bus_socket
}

func (p Paths) withDefaults() Paths {
	for _, path := range []struct {
		value  *string
		preset string
	}{
		{&p.DockerSocket, "run/docker.sock"},
		{&p.DockerConfig, "etc/docker/daemon.json"},
		{&p.CRIDockerdSocket, "run/cri-dockerd.sock"},
		{&p.SystemBus, "run/dbus/system_bus_socket"},
	} {
		if *path.value == "" {
			*path.value = path.preset
		}
	}
	return p
}

// exists reports whether a path exists on the host, at the end of its links.
func (h host) exists(relative string) bool {
	path, err := resolve(h.root, relative)
	if err != nil {
		return false
	}
	_, err = os.Lstat(path)
	return err == nil
}

// containerd returns the containerd of the host: the one of a distribution whose configuration
// and the directory of whose socket are there, else the packaged one; with what Paths says of
// it. The socket itself may be absent while containerd restarts.
func (h host) containerd() distribution.Containerd {
	found := distribution.Packaged()
	for _, d := range distribution.Containerds() {
		if h.paths.ContainerdSocket != "" && h.paths.ContainerdSocket != d.Socket {
			continue
		}
		if h.exists(path.Dir(d.Socket)) && h.exists(d.Config) {
			found = d
			break
		}
	}
	if socket := h.paths.ContainerdSocket; socket != "" {
		found.Socket = socket
	}
	if config := h.paths.ContainerdConfig; config != "" {
		found.Config, found.Templates = config, nil
	}
	return found
}

// unitsOf returns the systemd units that may run an engine.
func (h host) unitsOf(e task.Engine) []string {
	switch {
	case h.units[e] != "":
		return []string{h.units[e]}
	case e == task.Containerd:
		return h.containerd().Units
	}
	return []string{string(e) + ".service"}
}

// socket returns the socket of an engine, relative to the host root.
func (h host) socket(e task.Engine) string {
	if e == task.Docker {
		return h.paths.DockerSocket
	}
	return h.containerd().Socket
}

// config returns the configuration file of an engine, relative to the host root.
func (h host) config(e task.Engine) string {
	if e == task.Docker {
		return h.paths.DockerConfig
	}
	return h.containerd().Config
}

// connect returns a client of an engine. It does not wait for a response.
func (h host) connect(e task.Engine) (engine, error) {
	socket, err := resolve(h.root, h.socket(e))
	if err != nil {
		return nil, err
	}
	if e == task.Docker {
		return newDocker(socket)
	}
	return newCRI(socket)
}

// candidates is the input for the choice of the engine.
type candidates struct {
	criDockerd bool         // the socket of cri-dockerd exists: the kubelet uses docker
	containerd error        // nil: containerd responds as a CRI runtime
	docker     func() error // nil: docker responds; only called when containerd runs no pods, because it may start docker
	ownGone    func() error // nil: docker runs the agent's container, or the agent has no pod; only called after docker
}

// choose returns the engine that runs the pods. A containerd that runs none may be that of docker, or may
// only be starting or be badly configured: docker is the engine if it runs the agent itself.
func choose(c candidates) (task.Engine, error) {
	switch {
	case c.criDockerd:
		return task.Docker, nil
	case c.containerd == nil:
		return task.Containerd, nil
	case !runsNoPods(c.containerd):
		return "", fmt.Errorf("containerd is not responding: %w", c.containerd)
	}
	err := c.docker()
	if err == nil {
		err = whyNotOurs(c.ownGone())
	}
	if err != nil {
		return "", fmt.Errorf("no container engine that runs pods is responding: containerd: %w; docker: %w", c.containerd, err)
	}
	return task.Docker, nil
}

// errNoSocket means that an engine has no socket.
var errNoSocket = errors.New("there is no socket")

// runsNoPods reports whether an error of containerd means that it is not there, or has no CRI plugin.
func runsNoPods(err error) bool {
	return errors.Is(err, errNoSocket) || status.Code(err) == codes.Unimplemented
}

// whyNotOurs returns what the result of ownGone says of docker, nil if it runs the agent.
func whyNotOurs(gone error) error {
	switch {
	case errors.Is(gone, errOwnContainer):
		return errors.New("it runs no container of this agent's pod")
	case gone != nil:
		return fmt.Errorf("it is not known to run this agent: %w", gone)
	}
	return nil
}

// detect returns the wanted engine, or for Auto the one that runs the pods.
func (h host) detect(ctx context.Context, wanted task.Engine) (task.Engine, error) {
	if wanted != "" && wanted != task.Auto {
		return wanted, nil
	}
	return choose(candidates{
		criDockerd: h.exists(h.paths.CRIDockerdSocket),
		containerd: h.probe(ctx, task.Containerd),
		docker:     func() error { return h.probe(ctx, task.Docker) },
		ownGone:    func() error { return h.ownGone(ctx, task.Docker) },
	})
}

func (h host) probe(ctx context.Context, e task.Engine) error {
	_, err := h.ask(ctx, e)
	return err
}

// ask connects to an engine and returns its status.
func (h host) ask(ctx context.Context, e task.Engine) (engineStatus, error) {
	if socket := h.socket(e); !h.exists(socket) {
		return engineStatus{}, fmt.Errorf("%w /%s", errNoSocket, socket)
	}
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	client, err := h.connect(e)
	if err != nil {
		return engineStatus{}, err
	}
	found, err := client.status(ctx)
	return found, errors.Join(err, client.close())
}

var errOwnContainer = errors.New("the container of the agent is no longer running")

// ownGone returns nil when the agent's container runs, or the agent has no pod.
func (h host) ownGone(ctx context.Context, engine task.Engine) error {
	if h.podUID == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	client, err := h.connect(engine)
	if err != nil {
		return err
	}
	defer client.close()
	running, err := client.runningContainers(ctx, h.podUID)
	if err == nil && running == 0 {
		return errOwnContainer
	}
	return err
}
