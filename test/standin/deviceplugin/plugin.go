// Package deviceplugin is a kubelet device plugin for enflame.com/gcu. The cards are
// healthy while a driver is loaded. Like the real plugin, it gives containers the
// variable that the container runtime reads (docs/components.md 1.3).
package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/topsops/gcu-operator/test/standin/gcu"
)

const (
	// Directory is the folder for the sockets of the kubelet and its plugins.
	Directory = v1beta1.DevicePluginPath
	// Resource is the name of the extended resource.
	Resource = "enflame.com/gcu"

	socketName      = "enflame.sock"
	kubeletName     = "kubelet.sock"
	visibleDevices  = "ENFLAME_VISIBLE_DEVICES"
	registerTimeout = 5 * time.Second
)

// Plugin offers the cards of a node.
type Plugin struct {
	v1beta1.UnimplementedDevicePluginServer
	// Directory contains the sockets of the kubelet and the plugin.
	Directory string
	Node      gcu.Node
	// Cards is the number of cards of the node, visible or not.
	Cards int
	// Interval is the poll interval for the node and the kubelet.
	Interval time.Duration
}

// Run offers the cards until ctx is done. It waits for the kubelet. A kubelet that
// restarts removes our socket; Run then creates it again and registers.
func (p Plugin) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := p.offer(ctx); err != nil && ctx.Err() == nil {
			log.Print(err) // retried
		}
		p.pause(ctx)
	}
	return nil
}

// offer serves and registers, until the socket is removed or ctx is done.
func (p Plugin) offer(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	socket := filepath.Join(p.Directory, socketName)
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the old socket: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("serving the kubelet: %w", err)
	}
	// A restarting kubelet removes the socket itself, and when we end the path may belong
	// to another socket.
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	server := grpc.NewServer()
	v1beta1.RegisterDevicePluginServer(server, serving{p, ctx})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer func() {
		end() // ends the streams
		server.Stop()
		<-ended
	}()
	if err := p.register(ctx); err != nil {
		return err
	}
	log.Printf("offers %d of %s", p.Cards, Resource)
	for {
		if _, err := os.Stat(socket); err != nil {
			return errors.New("the kubelet has restarted")
		}
		if !p.pause(ctx) {
			return nil
		}
	}
}

// register registers our socket with the kubelet.
func (p Plugin) register(ctx context.Context) (err error) {
	connection, err := grpc.NewClient("unix://"+filepath.Join(p.Directory, kubeletName), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return fmt.Errorf("connecting to the kubelet: %w", err)
	}
	defer func() { err = errors.Join(err, connection.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, registerTimeout)
	defer cancel()
	_, err = v1beta1.NewRegistrationClient(connection).Register(ctx,
		&v1beta1.RegisterRequest{Version: v1beta1.Version, Endpoint: socketName, ResourceName: Resource})
	if err != nil {
		return fmt.Errorf("registering with the kubelet: %w", err)
	}
	return nil
}

// pause waits for an interval, and returns false if ctx is done.
func (p Plugin) pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(p.Interval):
		return true
	}
}

// serving serves the kubelet until its ctx is done.
type serving struct {
	Plugin
	ctx context.Context
}

// GetDevicePluginOptions implements DevicePlugin: there are none.
func (serving) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{}, nil
}

// ListAndWatch implements DevicePlugin. It holds visible cards open.
func (s serving) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	var held gcu.Cards
	defer func() { held.Close() }()
	told := ""
	for {
		if held == nil {
			held, _ = s.Node.Open() // on error they are unhealthy
		}
		health := s.health(held)
		if health != told {
			log.Printf("the cards are %s", health)
			if err := stream.Send(s.devices(health)); err != nil {
				return err
			}
			told = health
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-s.ctx.Done():
			return nil
		case <-time.After(s.Interval):
		}
	}
}

func (s serving) health(held gcu.Cards) string {
	if held == nil || s.Node.Version() == "" {
		return v1beta1.Unhealthy
	}
	return v1beta1.Healthy
}

func (s serving) devices(health string) *v1beta1.ListAndWatchResponse {
	answer := &v1beta1.ListAndWatchResponse{}
	for i := range s.Cards {
		answer.Devices = append(answer.Devices, &v1beta1.Device{ID: strconv.Itoa(i), Health: health})
	}
	return answer
}

// Allocate implements DevicePlugin: it makes the allocated cards visible to the
// container.
func (s serving) Allocate(_ context.Context, request *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	answer := &v1beta1.AllocateResponse{}
	for _, container := range request.GetContainerRequests() {
		answer.ContainerResponses = append(answer.ContainerResponses, &v1beta1.ContainerAllocateResponse{
			Envs: map[string]string{visibleDevices: strings.Join(container.GetDevicesIds(), ",")},
		})
	}
	return answer, nil
}
