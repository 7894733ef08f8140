// Package deviceplugin is a device plugin of the kubelet for enflame.com/gcu. The cards
// are healthy while a driver is loaded. What a container gets is the variable that
// the container runtime reads (docs/components.md 1.3), as from the real one.
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
	// Directory is where the kubelet and its plugins have their sockets.
	Directory = v1beta1.DevicePluginPath
	// Resource is what the plugin offers.
	Resource = "enflame.com/gcu"

	socketName      = "enflame.sock"
	kubeletName     = "kubelet.sock"
	visibleDevices  = "ENFLAME_VISIBLE_DEVICES"
	registerTimeout = 5 * time.Second
)

// Plugin offers the cards of a node.
type Plugin struct {
	v1beta1.UnimplementedDevicePluginServer
	// Directory has the socket of the kubelet, and gets ours.
	Directory string
	Node      gcu.Node
	// Cards is how many the node has, whether they can be seen or not.
	Cards int
	// Interval is between two looks at the node and at the kubelet.
	Interval time.Duration
}

// Run offers the cards until ctx is done. A kubelet that starts anew takes our socket
// away: then it is made again and the kubelet is told. While there is no kubelet it
// is waited for.
func (p Plugin) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := p.offer(ctx); err != nil && ctx.Err() == nil {
			log.Print(err) // and again
		}
		p.pause(ctx)
	}
	return nil
}

// offer serves and registers until the socket is gone or ctx is done.
func (p Plugin) offer(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	socket := filepath.Join(p.Directory, socketName)
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the socket of the plugin before: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("serving the kubelet: %w", err)
	}
	// A kubelet that starts anew removes the socket itself, and the one at this
	// path may be another's by the time we end.
	listener.(*net.UnixListener).SetUnlinkOnClose(false)
	server := grpc.NewServer()
	v1beta1.RegisterDevicePluginServer(server, serving{p, ctx})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	defer func() {
		end() // of the streams
		server.Stop()
		<-ended
	}()
	if err := p.register(ctx); err != nil {
		return err
	}
	log.Printf("offers %d of %s", p.Cards, Resource)
	for {
		if _, err := os.Stat(socket); err != nil {
			return errors.New("the kubelet has started anew")
		}
		if !p.pause(ctx) {
			return nil
		}
	}
}

// register tells the kubelet of our socket.
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

// pause waits an interval. False means that ctx is done.
func (p Plugin) pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(p.Interval):
		return true
	}
}

// serving answers the kubelet until its ctx is done.
type serving struct {
	Plugin
	ctx context.Context
}

// GetDevicePluginOptions implements DevicePlugin: there are none.
func (serving) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{}, nil
}

// ListAndWatch implements DevicePlugin. While the cards can be seen they are held open.
func (s serving) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	var held gcu.Cards
	defer func() { held.Close() }()
	told := ""
	for {
		if held == nil {
			held, _ = s.Node.Open() // without: they are unhealthy
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

// Allocate implements DevicePlugin: a container is to see the cards that it was given.
func (s serving) Allocate(_ context.Context, request *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	answer := &v1beta1.AllocateResponse{}
	for _, container := range request.GetContainerRequests() {
		answer.ContainerResponses = append(answer.ContainerResponses, &v1beta1.ContainerAllocateResponse{
			Envs: map[string]string{visibleDevices: strings.Join(container.GetDevicesIds(), ",")},
		})
	}
	return answer, nil
}
