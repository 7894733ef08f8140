package hosttasks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// death is the end of an agent: its disk is kept, and it does nothing more.
type death struct {
	*site
	once sync.Once
	left string
	stop func()
	dead chan struct{}
}

func (d *death) kill() {
	d.once.Do(func() {
		if err := os.CopyFS(d.left, os.DirFS(d.stateDir)); err != nil {
			d.t.Errorf("copying the state: %v", err)
		}
		close(d.dead)
		go d.stop()
	})
}

// dying is an API server that only a living agent reaches. at is called before each call.
type dying struct {
	Cluster
	at   func(report *topsv1.HostReport)
	dead chan struct{}
}

func (d dying) alive() error {
	select {
	case <-d.dead:
		return errors.New("killed")
	default:
		return nil
	}
}

func (d dying) Node(ctx context.Context, name string) (*corev1.Node, error) {
	d.at(nil)
	if err := d.alive(); err != nil {
		return nil, err
	}
	return d.Cluster.Node(ctx, name)
}

func (d dying) ApplyStatus(ctx context.Context, manager string, n *topsv1.NodeUpgrade) error {
	d.at(n.Status.Host)
	if err := d.alive(); err != nil {
		return err
	}
	return d.Cluster.ApplyStatus(ctx, manager, n)
}

func TestTheRuntimeIsRestartedOnceWhereverTheAgentIsKilled(t *testing.T) {
	const operation, task = "op", "node_restart-runtime"
	for i, point := range []string{"before the request is recorded", "after the record, before the restart", "while docker is down",
		"after the restart, before the answer is recorded", "before the result is shown", "while docker is down, and its operation is aborted"} {
		down, aborted := i == 2 || i == 5, i == 5
		t.Run("killed "+point, func(t *testing.T) {
			s := newSite(t, fmt.Sprint("killed-", i))
			d := &death{site: s, left: filepath.Join(t.TempDir(), "left"), dead: make(chan struct{})}
			s.host.configure("enflame")
			s.change = func(o *Options) {
				o.Cluster = dying{Cluster: o.Cluster, dead: d.dead, at: func(report *topsv1.HostReport) {
					r := report.Result(operation, s.task(task))
					if i == 0 && report == nil || i == 4 && r != nil && r.State == topsv1.HostTaskDone {
						d.kill()
					}
				}}
			}
			ended := make(chan error, 1)
			s.manager.restart = func(ctx context.Context) error {
				if i == 1 {
					d.kill()
					<-ctx.Done()
					return ctx.Err()
				}
				s.manager.job(1)
				defer s.manager.job(-1)
				if down { // systemd continues without the agent
					err := s.host.stopDocker()
					s.manager.job(1)
					d.kill()
					go func() {
						defer s.manager.job(-1)
						<-ctx.Done()
						ended <- s.host.startDocker()
					}()
					<-ctx.Done()
					return errors.Join(err, ctx.Err())
				}
				err := errors.Join(s.host.stopDocker(), s.host.startDocker())
				if i == 3 {
					d.kill()
					<-ctx.Done()
				}
				return errors.Join(err, ctx.Err())
			}
			started := make(chan struct{})
			stopped := make(chan struct{})
			var stop func()
			d.stop = func() { <-started; stop(); close(stopped) }
			s.ask(operation, 1, nil, task)
			stop = s.start()
			close(started)
			until(t, "the agent is killed", func() bool {
				select {
				case <-stopped:
					return true
				default:
					return false
				}
			})
			if r := s.result(operation, task); r.State == topsv1.HostTaskDone {
				t.Fatalf("it was shown before the agent was killed: %+v", r)
			}

			if aborted {
				asked := s.nodeUpgrade()
				asked.Spec.Operation.Abort = true
				if err := s.admin.Update(t.Context(), asked); err != nil {
					t.Fatal(err)
				}
			}
			s.stateDir, s.change, s.manager.restart = d.left, func(*Options) {}, nil
			s.start() // comes back
			r := s.untilAnswered(operation, task, 1)
			if r.State != topsv1.HostTaskDone || r.Reason != "Restarted" {
				t.Errorf("result %+v", r)
			}
			if host := s.nodeUpgrade().Status.Host; host.Runtime == nil || host.Runtime.Default != "enflame" {
				t.Errorf("runtime %+v", host.Runtime)
			}
			if down {
				if err := <-ended; err != nil {
					t.Fatal(err)
				}
			}
			if got := s.host.restarts(); got != 1 {
				t.Errorf("%d restarts, want 1", got)
			}
		})
	}
}
