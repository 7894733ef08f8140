package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/topsops/gcu-operator/test/cluster/internal/pki"
	"github.com/topsops/gcu-operator/test/cluster/internal/process"
)

// ErrPortTaken means that another program took a port after it was chosen and before
// our program listened on it. The caller should stop everything and start again.
var ErrPortTaken = errors.New("a chosen port was taken by another program")

// ControlPlane is a control plane that this program has started.
type ControlPlane struct {
	config Config
	ports  ports
	// member is the name of the etcd member, unique to this cluster.
	member string
	parts  []*process.Process
}

// New chooses ports and writes the files of a new control plane; it starts nothing.
// The directories of the layout must exist.
func New(config Config) (*ControlPlane, error) {
	p, err := choosePorts(config.RealNodes)
	if err != nil {
		return nil, err
	}
	member, err := pki.Token()
	if err != nil {
		return nil, err
	}
	if err := writeFiles(config, p); err != nil {
		return nil, err
	}
	return &ControlPlane{config: config, ports: p, member: member}, nil
}

// URL returns the URL of the API server.
func (c *ControlPlane) URL() string { return c.ports.apiServerURL() }

// StartAPI starts etcd and the API server and returns when requests are served.
func (c *ControlPlane) StartAPI(ctx context.Context) error {
	layout := c.config.Layout
	if err := c.start(etcd, etcdArgs(layout, c.ports, c.member)); err != nil {
		return err
	}
	if err := c.wait(ctx, etcd, etcdCheck(c.ports, c.member)); err != nil {
		return err
	}
	ready, err := apiServerCheck(layout, c.ports)
	if err != nil {
		return err
	}
	if err := c.start(apiServer, apiServerArgs(c.config, c.ports)); err != nil {
		return err
	}
	return c.wait(ctx, apiServer, ready)
}

// StartControllers starts everything else, without waiting for it.
func (c *ControlPlane) StartControllers() error {
	return errors.Join(
		c.start(controllerManager, controllerManagerArgs(c.config, c.ports)),
		c.start(scheduler, schedulerArgs(c.config.Layout, c.ports)),
		c.start(kwokController, kwokArgs(c.config, c.ports)),
	)
}

// WaitControllers returns when everything that StartControllers started is healthy.
func (c *ControlPlane) WaitControllers(ctx context.Context) error {
	if err := c.wait(ctx, controllerManager, selfSignedCheck(c.ports.controllerManager)); err != nil {
		return err
	}
	if err := c.wait(ctx, scheduler, selfSignedCheck(c.ports.scheduler)); err != nil {
		return err
	}
	return c.wait(ctx, kwokController, plainCheck(c.ports.kwok))
}

func (c *ControlPlane) start(name string, args []string) error {
	p, err := process.Start(process.Command{
		Name: name,
		Path: c.config.Binary(name),
		Args: args,
		Dir:  c.config.Layout.Data(),
		Log:  c.config.Layout.Log(name),
	})
	if err != nil {
		return err
	}
	c.parts = append(c.parts, p)
	return c.config.Started(p.Record)
}

// wait waits until a component is healthy.
func (c *ControlPlane) wait(ctx context.Context, name string, healthy check) error {
	ctx, cancel := context.WithTimeoutCause(ctx, healthTimeout, errNotHealthy)
	defer cancel()
	return c.config.Progress.Step(name+" is healthy", func() error {
		for {
			err := healthy(ctx)
			// The check may have reached another process if ours has died.
			if died := c.Dead(); died != nil {
				return died
			}
			if err == nil {
				return nil
			}
			select {
			case <-ctx.Done():
				return c.notHealthy(ctx, name, err)
			case <-time.After(healthPoll):
			}
		}
	})
}

// errNotHealthy distinguishes our own timeout from the caller's.
var errNotHealthy = fmt.Errorf("not healthy after %s", healthTimeout)

func (c *ControlPlane) notHealthy(ctx context.Context, name string, last error) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, errNotHealthy) {
		return fmt.Errorf("waiting for %s: %w", name, cause)
	}
	return &PartError{Name: name, Log: c.config.Layout.Log(name), err: fmt.Errorf("%w: %w", cause, last)}
}

// Dead returns an error about the first component that no longer runs, or nil.
func (c *ControlPlane) Dead() error {
	for _, p := range c.parts {
		exited, how := p.Exited()
		if !exited {
			continue
		}
		err := &PartError{Name: p.Name, Log: p.Log, err: fmt.Errorf("ended: %w", how)}
		if logSays(p.Log, "address already in use") {
			return errors.Join(ErrPortTaken, err)
		}
		return err
	}
	return nil
}

// apiPort is the port of the Service kubernetes.
const apiPort = 443

// choosePorts chooses the ports of the components.
func choosePorts(r *RealNodes) (ports, error) {
	p, err := freePorts()
	if err != nil {
		return ports{}, err
	}
	p.apiHost = Host
	if r != nil {
		p.apiHost, p.apiServer = r.API.String(), apiPort
	}
	return p, nil
}

// freePorts returns unused ports. All listeners stay open until the last port is
// chosen, so that they differ.
func freePorts() (ports, error) {
	var p ports
	for _, port := range []*int{&p.etcdClient, &p.etcdPeer, &p.apiServer, &p.controllerManager, &p.scheduler, &p.kwok} {
		listener, err := net.Listen("tcp", net.JoinHostPort(Host, "0"))
		if err != nil {
			return ports{}, fmt.Errorf("choosing a free port: %w", err)
		}
		// Closed when all ports have been chosen.
		defer func() { _ = listener.Close() }()
		*port = listener.Addr().(*net.TCPAddr).Port
	}
	return p, nil
}

// Prepare creates the directories of a layout that New writes to, and empties them
// after an earlier attempt; logs are kept.
func Prepare(l Layout) error {
	for _, dir := range []string{l.Data(), l.Disks()} {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("clearing the cluster's data: %w", err)
		}
	}
	for _, dir := range []string{l.Data(), l.Logs()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the cluster's folders: %w", err)
		}
	}
	return nil
}
