package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/topsops/gcu-operator/test/standin/gcu"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// kubelet simulates the registration side of the kubelet.
type kubelet struct {
	v1beta1.UnimplementedRegistrationServer
	directory  string
	registered chan *v1beta1.RegisterRequest
	server     *grpc.Server
}

// Register implements Registration.
func (k *kubelet) Register(_ context.Context, request *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	k.registered <- request
	return &v1beta1.Empty{}, nil
}

// start clears the directory and serves, like a starting kubelet.
func (k *kubelet) start(t *testing.T) {
	t.Helper()
	sockets, err := filepath.Glob(filepath.Join(k.directory, "*"))
	check(t, err)
	for _, socket := range sockets {
		check(t, os.Remove(socket))
	}
	listener, err := net.Listen("unix", filepath.Join(k.directory, kubeletName))
	check(t, err)
	k.server = grpc.NewServer()
	v1beta1.RegisterRegistrationServer(k.server, k)
	go func() { _ = k.server.Serve(listener) }() // until Stop
}

func (k *kubelet) next(t *testing.T) *v1beta1.RegisterRequest {
	t.Helper()
	select {
	case request := <-k.registered:
		return request
	case <-time.After(time.Minute):
		t.Fatal("the plugin does not register")
		return nil
	}
}

// client connects to the plugin like the kubelet.
func client(t *testing.T, directory string) v1beta1.DevicePluginClient {
	t.Helper()
	connection, err := grpc.NewClient("unix://"+filepath.Join(directory, socketName), grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(t, err)
	t.Cleanup(func() { check(t, connection.Close()) })
	return v1beta1.NewDevicePluginClient(connection)
}

// startPlugin runs a plugin with a fake kubelet until the test ends.
func startPlugin(t *testing.T) (*kubelet, gcu.Node) {
	t.Helper()
	directory, err := os.MkdirTemp("", "plugin") // short, for the sockets in it
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(directory)) })
	k := &kubelet{directory: directory, registered: make(chan *v1beta1.RegisterRequest, 1)}
	k.start(t)
	t.Cleanup(func() { k.server.Stop() })
	node := gcu.Node{Root: t.TempDir()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- Plugin{Directory: directory, Node: node, Cards: 2, Interval: 10 * time.Millisecond}.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		check(t, <-ended)
	})
	return k, node
}

// load makes the node show a loaded driver.
func load(t *testing.T, node gcu.Node) {
	t.Helper()
	for _, path := range []string{node.Card(0), node.Card(1), node.VersionFile()} {
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, []byte("1.0.0\n"), 0o600))
	}
}

// next returns the health of each device in the next update.
func next(t *testing.T, watch grpc.ServerStreamingClient[v1beta1.ListAndWatchResponse]) map[string]string {
	t.Helper()
	answer, err := watch.Recv()
	check(t, err)
	health := map[string]string{}
	for _, d := range answer.GetDevices() {
		health[d.GetID()] = d.GetHealth()
	}
	return health
}

func TestCardsAreHealthyWhileADriverIsLoaded(t *testing.T) {
	k, node := startPlugin(t)
	request := k.next(t)
	if request.GetResourceName() != "enflame.com/gcu" || request.GetEndpoint() != socketName || request.GetVersion() != "v1beta1" {
		t.Errorf("registered is %s", request)
	}
	watch, err := client(t, k.directory).ListAndWatch(t.Context(), &v1beta1.Empty{})
	check(t, err)
	want := func(health string) {
		t.Helper()
		if diff := cmp.Diff(map[string]string{"0": health, "1": health}, next(t, watch)); diff != "" {
			t.Fatal(diff)
		}
	}
	want("Unhealthy")
	load(t, node)
	want("Healthy")
	check(t, os.Remove(node.VersionFile()))
	want("Unhealthy")
}

func TestAllocatedCardsAreVisibleToTheContainer(t *testing.T) {
	k, _ := startPlugin(t)
	k.next(t)
	answer, err := client(t, k.directory).Allocate(t.Context(), &v1beta1.AllocateRequest{ContainerRequests: []*v1beta1.ContainerAllocateRequest{
		{DevicesIds: []string{"1"}}, {DevicesIds: []string{"0", "1"}},
	}})
	check(t, err)
	var got []map[string]string
	for _, c := range answer.GetContainerResponses() {
		got = append(got, c.GetEnvs())
	}
	if diff := cmp.Diff([]map[string]string{{visibleDevices: "1"}, {visibleDevices: "0,1"}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestThePluginRegistersWithARestartedKubelet(t *testing.T) {
	k, _ := startPlugin(t)
	for restart := range 3 {
		k.next(t)
		options, err := client(t, k.directory).GetDevicePluginOptions(t.Context(), &v1beta1.Empty{})
		if err != nil || options.GetPreStartRequired() {
			t.Fatal(errors.Join(fmt.Errorf("after %d restarts the plugin answers %s", restart, options), err))
		}
		k.server.Stop()
		k.start(t)
	}
}
