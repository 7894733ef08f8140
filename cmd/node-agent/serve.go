package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/logging"
	"github.com/topsops/gcu-operator/pkg/nodeapi"
	"github.com/topsops/gcu-operator/pkg/ota"
)

// serve runs the endpoint and the loop behind it until ctx is done.
func serve(ctx context.Context, s settings, stderr io.Writer) error {
	log := logging.New(stderr, s.log)
	klog.SetLogger(log.WithName("client"))

	config, err := restConfig(s.kubeconfig)
	if err != nil {
		return err
	}
	cluster, err := nodeapi.New(config, "gcu-node-agent/"+version)
	if err != nil {
		return err
	}
	inbox, err := ota.NewInbox(ota.Options{
		NodeName: s.nodeName, StateDirectory: s.stateDir, Version: version,
		Cluster: cluster, Clock: clock.RealClock{}, Log: log.WithName("inbox"),
	})
	if err != nil {
		return fmt.Errorf("opening --state-dir %s: %w", s.stateDir, err)
	}
	listener, err := net.Listen("tcp", s.address.String())
	if err != nil {
		return fmt.Errorf("binding --ota-bind-address: %w", err)
	}

	// The loop outlives the endpoint, so that a request accepted while it
	// drains is still looked after.
	looping, stop := context.WithCancel(context.WithoutCancel(ctx))
	var loop sync.WaitGroup
	loop.Go(func() { inbox.Run(looping) })
	log.Info("Serving the OTA endpoint", "address", listener.Addr().String(), "node", s.nodeName, "version", version)
	err = ota.Serve(ctx, listener, ota.NewHandler(inbox, log.WithName("http")), log.WithName("http"))
	stop()
	loop.Wait()
	log.Info("Stopped")
	return err
}

func restConfig(kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("finding the API server without --kubeconfig: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading --kubeconfig %s: %w", kubeconfig, err)
	}
	return config, nil
}
