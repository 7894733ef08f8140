package harness

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Host simulates the machine of a simulated node for its node agent: the files of a
// loaded driver and its cards, and a containerd that pulls any image at once, but those that its
// registry Lacks, and already has the desired default runtime. Tests with a real engine are in test/host.
type Host struct {
	// Root is the folder that serves as the host's root.
	Root string

	server *grpc.Server
	images *images
}

// hostCards is the number of cards of a Host.
const hostCards = 8

// NewHost creates a Host below a folder; it serves until Close. The path of the folder
// must be short, because it contains sockets.
func NewHost(folder, driverVersion string) (*Host, error) {
	h := &Host{Root: folder, server: grpc.NewServer(), images: &images{present: map[string]bool{}, lacking: map[string]bool{}}}
	if err := h.LoadDriver(driverVersion); err != nil {
		return nil, err
	}
	if err := h.write("proc/sys/kernel/random/boot_id", filepath.Base(folder)+"\n"); err != nil {
		return nil, err
	}
	for card := range hostCards {
		if err := h.write(fmt.Sprintf("dev/gcu%d", card), ""); err != nil {
			return nil, err
		}
	}
	socket := filepath.Join(folder, "run", "containerd", "containerd.sock")
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, fmt.Errorf("creating the engine's folder: %w", err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, fmt.Errorf("serving containerd: %w", err)
	}
	criv1.RegisterRuntimeServiceServer(h.server, engine{})
	criv1.RegisterImageServiceServer(h.server, h.images)
	go func() { _ = h.server.Serve(listener) }() // until Close
	return h, nil
}

// Close stops the host's engine and keeps its files.
func (h *Host) Close() { h.server.Stop() }

// LoadDriver makes the host report that a version of the driver is loaded.
func (h *Host) LoadDriver(version string) error {
	return h.write("sys/module/enflame/version", version+"\n")
}

// Pulled reports whether an image was pulled.
func (h *Host) Pulled(image string) bool {
	h.images.mu.Lock()
	defer h.images.mu.Unlock()
	return h.images.present[image]
}

// Lacks makes pulls of an image fail.
func (h *Host) Lacks(image string) {
	h.images.mu.Lock()
	defer h.images.mu.Unlock()
	h.images.lacking[image] = true
}

func (h *Host) write(name, text string) error {
	path := filepath.Join(h.Root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making a host: %w", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		return fmt.Errorf("making a host: %w", err)
	}
	return nil
}

// engine responds like containerd.
type engine struct {
	criv1.UnimplementedRuntimeServiceServer
}

// Version implements RuntimeService.
func (engine) Version(context.Context, *criv1.VersionRequest) (*criv1.VersionResponse, error) {
	return &criv1.VersionResponse{Version: "0.1.0", RuntimeName: "containerd", RuntimeVersion: "simulated", RuntimeApiVersion: "v1"}, nil
}

// Status implements RuntimeService.
func (engine) Status(context.Context, *criv1.StatusRequest) (*criv1.StatusResponse, error) {
	ready := []*criv1.RuntimeCondition{{Type: "RuntimeReady", Status: true}, {Type: "NetworkReady", Status: true}}
	return &criv1.StatusResponse{
		Status: &criv1.RuntimeStatus{Conditions: ready},
		Info:   map[string]string{"config": `{"containerd":{"defaultRuntimeName":"enflame"}}`},
	}, nil
}

// images are those of a host.
type images struct {
	criv1.UnimplementedImageServiceServer
	mu      sync.Mutex
	present map[string]bool
	// lacking are those that the registry lacks.
	lacking map[string]bool
}

// ImageStatus implements ImageService.
func (i *images) ImageStatus(_ context.Context, r *criv1.ImageStatusRequest) (*criv1.ImageStatusResponse, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.present[r.GetImage().GetImage()] {
		return &criv1.ImageStatusResponse{}, nil
	}
	return &criv1.ImageStatusResponse{Image: &criv1.Image{Id: "sha256:" + r.GetImage().GetImage()}}, nil
}

// PullImage implements ImageService: an image that the registry has is pulled at once.
func (i *images) PullImage(_ context.Context, r *criv1.PullImageRequest) (*criv1.PullImageResponse, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.lacking[r.GetImage().GetImage()] {
		return nil, status.Errorf(codes.NotFound, "%s: not found", r.GetImage().GetImage())
	}
	i.present[r.GetImage().GetImage()] = true
	return &criv1.PullImageResponse{ImageRef: "sha256:" + r.GetImage().GetImage()}, nil
}
