package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Components of the control plane, by the names of testcluster.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	// Kubelets simulates the kubelets of simulated nodes.
	Kubelets = "kwok"
)

// KillComponents kills components of the control plane, like a crash.
func (c *Cluster) KillComponents(ctx context.Context, names ...string) error {
	return c.onComponents(ctx, "kill", names)
}

// StartComponents starts components that have died, in this order, and does not wait
// until they are healthy.
func (c *Cluster) StartComponents(ctx context.Context, names ...string) error {
	return c.onComponents(ctx, "start", names)
}

// FreezeComponents suspends components until ThawComponents.
func (c *Cluster) FreezeComponents(ctx context.Context, names ...string) error {
	return c.onComponents(ctx, "freeze", names)
}

// ThawComponents resumes frozen components.
func (c *Cluster) ThawComponents(ctx context.Context, names ...string) error {
	return c.onComponents(ctx, "thaw", names)
}

func (c *Cluster) onComponents(ctx context.Context, verb string, names []string) error {
	_, err := c.testcluster(ctx, io.Discard, append([]string{"component-" + verb}, names...)...)
	return err
}

// BackUp copies the data of etcd to a folder, which must not exist. etcd is suspended
// meanwhile, so the copy is what a crash at that moment would leave.
func (c *Cluster) BackUp(ctx context.Context, folder string) error {
	if err := c.FreezeComponents(ctx, Etcd); err != nil {
		return err
	}
	if err := errors.Join(os.CopyFS(folder, os.DirFS(c.etcdData())), c.ThawComponents(ctx, Etcd)); err != nil {
		return fmt.Errorf("copying the data of etcd: %w", err)
	}
	return nil
}

// Restore replaces the data of etcd, which must be dead, with a copy that BackUp made.
func (c *Cluster) Restore(folder string) error {
	data := c.etcdData()
	if err := os.RemoveAll(data); err != nil {
		return fmt.Errorf("removing the data of etcd: %w", err)
	}
	if err := os.CopyFS(data, os.DirFS(folder)); err != nil {
		return fmt.Errorf("restoring the data of etcd: %w", err)
	}
	return os.Chmod(data, 0o700) // as etcd requires
}

func (c *Cluster) etcdData() string { return filepath.Join(c.Dir, "data", Etcd) }
