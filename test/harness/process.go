package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/topsops/gcu-operator/test/freeport"
)

const (
	startTimeout = 60 * time.Second
	stopTimeout  = 30 * time.Second
	pollInterval = 200 * time.Millisecond
)

// ServiceAccounts of the shipped manifests.
const (
	ManagerAccount = "kube-system/gcu-operator"
	AgentAccount   = "kube-system/gcu-node-agent"
)

// Process is a running program of the project.
type Process struct {
	// URL is the address of the manager's metrics or of an agent's endpoint.
	URL string
	// Log is the file with its output.
	Log string

	command *exec.Cmd
	done    chan struct{}
}

// Install applies the shipped CRDs, roles and admission policy.
func (c *Cluster) Install(ctx context.Context) error {
	for _, folder := range []string{"config/crd", "config/rbac", "config/admission", "config/rest-api"} {
		if _, err := c.Kubectl(ctx, "apply", "--server-side", "-k", folder); err != nil {
			return err
		}
	}
	_, err := c.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=30s", "crd",
		"gcuresources.topsops.enflame.com", "daemonrollouts.topsops.enflame.com", "nodeupgrades.topsops.enflame.com", "upgradeplans.topsops.enflame.com", "upgradepolicies.topsops.enflame.com")
	return err
}

// StartManager starts a manager with the rights of its ServiceAccount and waits until
// it is ready. args are appended to its arguments; by default it does not serve the
// REST API.
func (c *Cluster) StartManager(ctx context.Context, args ...string) (*Process, error) {
	kubeconfig, err := c.ServiceAccountKubeconfig(ctx, ManagerAccount, "")
	if err != nil {
		return nil, err
	}
	metrics, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	probes, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	args = append([]string{"--kubeconfig", kubeconfig, "--leader-elect", "--metrics-bind-address", metrics, "--metrics-secure=false",
		"--health-probe-bind-address", probes, "--log-format", "json", "--log-dir=",
		"--upgrade-api-bind-address=0"}, args...)
	p, err := c.start("manager", "manager.log", args)
	if err != nil {
		return nil, err
	}
	p.URL = "http://" + metrics
	return p, p.waitFor(ctx, "http://"+probes+"/readyz")
}

// StartAgent starts the node agent of one node, with the rights of its ServiceAccount
// on that node and hostRoot as the host's root, and waits until it serves over TCP
// without authentication, as in OpenYurt's documents.
func (c *Cluster) StartAgent(ctx context.Context, node, hostRoot string) (*Process, error) {
	kubeconfig, err := c.ServiceAccountKubeconfig(ctx, AgentAccount, node)
	if err != nil {
		return nil, err
	}
	address, err := freeport.Address()
	if err != nil {
		return nil, err
	}
	p, err := c.start("node-agent", "node-agent-"+node+".log", []string{"--kubeconfig", kubeconfig, "--node-name", node,
		"--ota-bind-address", address, "--state-dir", filepath.Join(hostRoot, "state"), "--log-format", "json",
		"--first-contact-spread", "0s", "--ota-auth", "none", "--ota-socket", filepath.Join(hostRoot, "ota.sock"),
		"--host-root", hostRoot, "--container-runtime", "containerd", "--log-dir="})
	if err != nil {
		return nil, err
	}
	p.URL = "http://" + address
	return p, p.waitFor(ctx, p.URL+"/healthz")
}

// Again starts the program of a process that has ended, with the same arguments, as a
// kubelet does. It does not wait until the program is ready.
func (c *Cluster) Again(p *Process) (*Process, error) {
	again, err := c.start(p.Name(), filepath.Base(p.Log), p.command.Args[1:])
	if err != nil {
		return nil, err
	}
	again.URL = p.URL
	return again, nil
}

func (c *Cluster) start(program, logName string, args []string) (*Process, error) {
	path, err := c.Project.Program(program)
	if err != nil {
		return nil, err
	}
	p := &Process{Log: filepath.Join(c.Dir, logName), done: make(chan struct{})}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", program, err)
	}
	defer log.Close()
	p.command = exec.Command(path, args...)
	p.command.Stdout, p.command.Stderr = log, log
	// The process must not receive our Ctrl-C.
	p.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.dismissGuard != nil {
		p.command.SysProcAttr.Pdeathsig = syscall.SIGKILL // it must not outlive us
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", program, err)
	}
	go func() {
		_ = p.command.Wait() // the exit status is in its log
		close(p.done)
	}()
	return p, nil
}

// Name returns the name of the program.
func (p *Process) Name() string { return filepath.Base(p.command.Path) }

// PID returns the process id.
func (p *Process) PID() int { return p.command.Process.Pid }

// Ended reports whether the process has exited.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop stops the process and waits until it has exited.
func (p *Process) Stop() error {
	_ = p.command.Process.Signal(syscall.SIGTERM) // if it has exited, done is closed
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		_ = p.command.Process.Kill()
		<-p.done
		return fmt.Errorf("%s did not exit within %s of SIGTERM, see %s", p.command.Path, stopTimeout, p.Log)
	}
}

// Kill kills the process, like a crash.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.done
}

// Freeze suspends the process until Thaw, so that its view becomes stale.
func (p *Process) Freeze() error { return p.command.Process.Signal(syscall.SIGSTOP) }

// Thaw resumes a frozen process.
func (p *Process) Thaw() error { return p.command.Process.Signal(syscall.SIGCONT) }

// waitFor polls a URL until it returns 200.
func (p *Process) waitFor(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	return Eventually(ctx, func() error {
		if p.Ended() {
			return Final(fmt.Errorf("%s exited while starting, see %s", p.command.Path, p.Log))
		}
		response, err := http.Get(url)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	})
}

// finalError ends an Eventually early.
type finalError struct{ cause error }

func (e *finalError) Error() string { return e.cause.Error() }
func (e *finalError) Unwrap() error { return e.cause }

// Final marks an error that Eventually must not retry.
func Final(err error) error { return &finalError{err} }

// Eventually calls check until it returns nil or a Final error, or ctx is done, and
// returns the last error.
func Eventually(ctx context.Context, check func() error) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		err := check()
		if _, final := errors.AsType[*finalError](err); err == nil || final {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
