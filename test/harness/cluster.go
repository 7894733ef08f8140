package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Project is a checkout of this project whose programs are built.
type Project struct {
	// Root is the folder of go.mod.
	Root string
}

// FindProject returns the project that contains the working directory.
func FindProject() (Project, error) {
	dir, err := os.Getwd()
	if err != nil {
		return Project{}, fmt.Errorf("finding the project: %w", err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "config", "crd")); err == nil {
			return Project{Root: dir}, nil
		}
	}
	return Project{}, fmt.Errorf("no folder with config/crd above the working directory: run this within the project")
}

// Path returns a path within the project.
func (p Project) Path(elements ...string) string {
	return filepath.Join(append([]string{p.Root}, elements...)...)
}

// Program returns the path of a built program, or an error that says how to build it.
// It looks in the folder in the environment variable PROGRAMS, relative to the
// project's root, and then in bin.
func (p Project) Program(name string) (string, error) {
	if folder := os.Getenv("PROGRAMS"); folder != "" {
		path := p.Path(folder, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	path := p.Path("bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%s is not built: run make build", path)
	}
	return path, nil
}

// Cluster is a running test cluster, or one that was taken.
type Cluster struct {
	Project Project
	// Dir contains the cluster's data, unless it was taken; Kubeconfig is the administrator's.
	Dir        string
	Kubeconfig string
	// Config and Client act as the administrator, unthrottled.
	Config *rest.Config
	Client client.Client

	kubectl string
	// dismissGuard stops the process that removes the cluster after this one has ended;
	// nil if the cluster is kept.
	dismissGuard func() error
	// hooks do what testcluster does otherwise; nil unless the cluster was taken.
	hooks *Hooks
}

// StartCluster runs testcluster up with additional arguments. Progress goes to the
// writer.
func StartCluster(ctx context.Context, project Project, dir string, progress io.Writer, args ...string) (*Cluster, error) {
	c := &Cluster{Project: project, Dir: dir}
	if err := c.startGuard(); err != nil {
		return nil, err
	}
	kubeconfig, err := c.testcluster(ctx, progress, append([]string{"up"}, args...)...)
	if err != nil {
		return nil, err
	}
	c.Kubeconfig = kubeconfig
	if c.kubectl, err = c.run(ctx, progress, "kubectl-path"); err != nil {
		return nil, err
	}
	return c, c.connect()
}

// connect makes the clients of the administrator.
func (c *Cluster) connect() (err error) {
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return fmt.Errorf("reading %s: %w", c.Kubeconfig, err)
	}
	c.Config.QPS = -1
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return fmt.Errorf("registering kinds: %w", err)
	}
	if err := topsv1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("registering kinds: %w", err)
	}
	if c.Client, err = client.New(c.Config, client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	return nil
}

// startGuard starts a process that removes the cluster when this one has ended without
// cleaning up, after a panic, a test timeout or SIGKILL. It keeps the logs.
func (c *Cluster) startGuard() error {
	program, err := c.Project.Program("testcluster")
	if err != nil {
		return err
	}
	guard := exec.Command("sh", "-c", `read -r keep || "$0" down --keep-logs --dir "$1"`, program, c.Dir)
	guard.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // must not receive our Ctrl-C
	stdin, err := guard.StdinPipe()
	if err != nil {
		return fmt.Errorf("guarding the cluster: %w", err)
	}
	if err := guard.Start(); err != nil {
		return fmt.Errorf("guarding the cluster: %w", err)
	}
	c.dismissGuard = func() error {
		_, err := io.WriteString(stdin, "keep\n")
		return errors.Join(err, stdin.Close(), guard.Wait())
	}
	return nil
}

// Keep makes the cluster, and programs started on it from now on, outlive this process.
func (c *Cluster) Keep() error {
	err := c.dismissGuard()
	c.dismissGuard = nil
	return err
}

// Stop stops the cluster and removes its data, even after the caller's context is done.
func (c *Cluster) Stop(progress io.Writer) error {
	if _, err := c.testcluster(context.Background(), progress, "down"); err != nil || c.dismissGuard == nil {
		return err
	}
	return c.Keep() // nothing left to guard
}

// NodesOff takes nodes offline, waits until they are NotReady, and returns a line per
// node.
func (c *Cluster) NodesOff(ctx context.Context, names ...string) (string, error) {
	if c.hooks != nil {
		return c.switchNodes(ctx, c.hooks.Disconnect, corev1.ConditionUnknown, names)
	}
	return c.testcluster(ctx, io.Discard, append([]string{"node-off"}, names...)...)
}

// NodesOn brings nodes back, waits until they are Ready, and returns a line per node.
func (c *Cluster) NodesOn(ctx context.Context, names ...string) (string, error) {
	if c.hooks != nil {
		return c.switchNodes(ctx, c.hooks.Reconnect, corev1.ConditionTrue, names)
	}
	return c.testcluster(ctx, io.Discard, append([]string{"node-on"}, names...)...)
}

// SetOnline takes a simulated node offline or back, and does not wait until Kubernetes notices.
func (c *Cluster) SetOnline(ctx context.Context, node string, online bool) error {
	value := "null"
	if online {
		value = `"true"`
	}
	labels := fmt.Sprintf(`{"metadata":{"labels":{"testcluster/online":%s}}}`, value)
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	return c.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(labels)))
}

// ServiceAccountKubeconfig writes a kubeconfig with the rights of a ServiceAccount,
// namespace/name, and returns its path. The token is bound to node, like that of a pod
// there, unless node is empty.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, account, node string) (string, error) {
	output := filepath.Join(c.Dir, strings.ReplaceAll(account, "/", "-")+node+".kubeconfig")
	_, err := c.testcluster(ctx, io.Discard, "kubeconfig", "--serviceaccount", account, "--node", node, "--output", output)
	return output, err
}

// KubectlCommand returns a kubectl command as the administrator, run in the
// project's root.
func (c *Cluster) KubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, c.kubectl, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	command.Dir = c.Project.Root
	return command
}

// Kubectl runs kubectl as the administrator and returns its output. Errors contain the
// output too.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	output, err := c.KubectlCommand(ctx, args...).CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(output))
	}
	return string(output), nil
}

// testcluster runs a testcluster command for this cluster.
func (c *Cluster) testcluster(ctx context.Context, progress io.Writer, args ...string) (string, error) {
	return c.run(ctx, progress, append([]string{args[0], "--dir", c.Dir}, args[1:]...)...)
}

// run runs testcluster and returns its standard output, trimmed.
func (c *Cluster) run(ctx context.Context, progress io.Writer, args ...string) (string, error) {
	program, err := c.Project.Program("testcluster")
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	command := interruptible(ctx, program, args...)
	command.Stdout, command.Stderr = &stdout, io.MultiWriter(&stderr, progress)
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("testcluster %s: %w: %s", args[0], err, lastLine(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// interruptible returns a command that is interrupted when ctx ends.
func interruptible(ctx context.Context, program string, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, program, args...)
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	return command
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
