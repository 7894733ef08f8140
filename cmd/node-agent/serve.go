//go:build linux

package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/apiclock"
	"github.com/topsops/gcu-operator/pkg/hostagent"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/hosttasks"
	"github.com/topsops/gcu-operator/pkg/journal"
	"github.com/topsops/gcu-operator/pkg/kubeconfig"
	"github.com/topsops/gcu-operator/pkg/logging"
	"github.com/topsops/gcu-operator/pkg/nodeapi"
	"github.com/topsops/gcu-operator/pkg/ota"
	"github.com/topsops/gcu-operator/pkg/ota/endpoint"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// serve runs the endpoint and the loops behind it until ctx is done.
func serve(ctx context.Context, s settings, stderr io.Writer) error {
	log := logging.New(stderr, s.log)
	klog.SetLogger(log.WithName("client"))

	config, err := kubeconfig.Load(s.kubeconfig)
	if err != nil {
		return err
	}
	there := &apiclock.Clock{Now: time.Now}
	config.Wrap(there.Around)
	cluster, err := nodeapi.New(config, "gcu-node-agent/"+version, clock.RealClock{}, log)
	if err != nil {
		return err
	}
	unlock, err := journal.Lock(ctx, s.stateDir, clock.RealClock{}, log)
	if err != nil && ctx.Err() != nil {
		return nil
	} else if err != nil {
		return fmt.Errorf("opening --state-dir %s: %w", s.stateDir, err)
	}
	defer func() { _ = unlock() }() // the end of the process unlocks it too
	worker, err := newWorker(s, cluster, there, log)
	if err != nil {
		return fmt.Errorf("opening --state-dir %s: %w", s.stateDir, err)
	}
	inbox, err := ota.NewInbox(ota.Options{
		NodeName: s.nodeName, StateDirectory: s.stateDir, Version: version, Capabilities: upgradeplan.Capabilities(),
		RestartsRuntime: s.restartRuntime, Cluster: cluster, Puller: worker, Clock: clock.RealClock{}, Log: log.WithName("inbox"),
	})
	if err != nil {
		return fmt.Errorf("opening --state-dir %s: %w", s.stateDir, err)
	}
	listeners, inUse, err := openListeners(s, log)
	if err != nil {
		return err
	}

	// The loops outlive the endpoint, so that requests accepted while it drains are still
	// handled.
	looping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	contact := afterwards(looping, firstContact(s, worker))
	loops.Go(func() { <-contact; inbox.Run(looping) })
	loops.Go(func() { <-contact; worker.Run(looping) })
	loops.Go(func() { <-contact; forgetStart(looping, log) })
	loops.Go(func() {
		<-contact
		if err := cluster.Follow(looping, s.nodeName, log.WithName("watch"), inbox.Seen, worker.Seen); err != nil {
			log.Error(err, "Not watching the NodeUpgrade, reading it from time to time only")
		}
	})
	log.Info("Serving the OTA endpoint", "address", listeners[0].Listener.Addr().String(), "auth", s.auth,
		"socket", s.socket, "node", s.nodeName, "version", version)
	handler := endpoint.NewHandler(endpoint.Options{Backend: inbox, AddressInUse: inUse, PodUID: s.podUID, Stopping: ctx.Done(), Clock: clock.RealClock{}, Log: log.WithName("http")})
	err = endpoint.Serve(ctx, listeners, handler, log.WithName("http"))
	stop()
	loops.Wait()
	log.Info("Stopped")
	return err
}

// firstContact returns how long the loops wait before their first call. An agent that was
// restarted together with the container runtime does not wait, because an operation waits
// for it.
func firstContact(s settings, worker *hosttasks.Worker) time.Duration {
	if worker.Restarting() {
		return 0
	}
	return nodeapi.FirstContact(s.nodeName, s.spread)
}

// afterwards returns a channel that is closed after a time, or when ctx is done.
func afterwards(ctx context.Context, wait time.Duration) <-chan struct{} {
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}()
	return passed
}

// newWorker returns the Worker for tasks on the host. It does not access the host.
func newWorker(s settings, cluster hosttasks.Cluster, there *apiclock.Clock, log logr.Logger) (*hosttasks.Worker, error) {
	var restarts *logging.Dated
	if s.logDir != "" {
		restarts = logging.NewDated(filepath.Join(s.logDir, restartLog), time.Now, func(err error) {
			log.Error(err, "Cannot write the log of restarts, continuing without it")
		})
	}
	units := map[task.Engine]string{task.Containerd: s.containerdUnit}
	executor, err := hostagent.New(hostagent.Options{
		StateDirectory: s.stateDir, HostRoot: s.hostRoot, Paths: s.paths, Units: units, Command: s.commands,
		Host: s.nodeName, PodUID: s.podUID, RestartLog: restarts,
		Clock: clock.RealClock{}, Log: log.WithName("host"),
	})
	if err != nil {
		return nil, err
	}
	return hosttasks.New(hosttasks.Options{
		NodeName: s.nodeName, Engine: s.engine, RestartAllowed: s.restartRuntime,
		Executor: executor, Cluster: cluster, Clock: clock.RealClock{}, Ahead: there.Ahead, Log: log.WithName("tasks"),
	}), nil
}
