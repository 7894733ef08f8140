package hostagent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// maxResponseBytes is the kubelet's limit for a response of a runtime.
const maxResponseBytes = 16 << 20

// cri is a client of containerd through CRI v1 (containerd 1.6 and newer).
type cri struct {
	connection *grpc.ClientConn
	runtime    criv1.RuntimeServiceClient
	images     criv1.ImageServiceClient
}

func newCRI(socket string) (engine, error) {
	connection, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a local socket
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxResponseBytes)))
	if err != nil {
		return nil, fmt.Errorf("connecting to containerd: %w", err)
	}
	return cri{connection, criv1.NewRuntimeServiceClient(connection), criv1.NewImageServiceClient(connection)}, nil
}

func (c cri) close() error { return c.connection.Close() }

func (c cri) status(ctx context.Context) (engineStatus, error) {
	version, err := c.runtime.Version(ctx, &criv1.VersionRequest{})
	if err != nil {
		return engineStatus{}, fmt.Errorf("asking containerd: %w", err)
	}
	status, err := c.runtime.Status(ctx, &criv1.StatusRequest{Verbose: true})
	if err != nil {
		return engineStatus{}, fmt.Errorf("asking containerd: %w", err)
	}
	runtime, err := defaultRuntimeOf(status.GetInfo()["config"])
	if err != nil {
		return engineStatus{}, err
	}
	return engineStatus{task.RuntimeFacts{Version: version.GetRuntimeVersion(), Default: runtime}, c.imageStore(ctx)}, nil
}

// imageStore returns "" when containerd does not report it: the rest of the status is still
// useful.
func (c cri) imageStore(ctx context.Context) string {
	response, err := c.images.ImageFsInfo(ctx, &criv1.ImageFsInfoRequest{})
	if err != nil {
		return ""
	}
	for _, system := range response.GetImageFilesystems() {
		return system.GetFsId().GetMountpoint()
	}
	return ""
}

// defaultRuntimeOf reads the CRI plugin's configuration, with drop-ins and defaults, from the
// verbose status of the running containerd.
func defaultRuntimeOf(config string) (string, error) {
	var parsed struct {
		Containerd struct {
			DefaultRuntimeName string `json:"defaultRuntimeName"`
		} `json:"containerd"`
	}
	if err := json.Unmarshal([]byte(config), &parsed); err != nil {
		return "", fmt.Errorf("decoding the configuration reported by containerd: %w", err)
	}
	if parsed.Containerd.DefaultRuntimeName == "" {
		return "", errors.New("containerd does not report its default runtime")
	}
	return parsed.Containerd.DefaultRuntimeName, nil
}

func (c cri) runningContainers(ctx context.Context, podUID string) (int, error) {
	response, err := c.runtime.ListContainers(ctx, &criv1.ListContainersRequest{Filter: &criv1.ContainerFilter{
		State:         &criv1.ContainerStateValue{State: criv1.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{podUIDLabel: podUID},
	}})
	if err != nil {
		return 0, fmt.Errorf("listing containers of containerd: %w", err)
	}
	return len(response.GetContainers()), nil
}

func (c cri) image(ctx context.Context, reference string) (string, error) {
	response, err := c.images.ImageStatus(ctx, &criv1.ImageStatusRequest{Image: &criv1.ImageSpec{Image: reference}})
	if err != nil {
		return "", fmt.Errorf("asking containerd for the image: %w", err)
	}
	return response.GetImage().GetId(), nil
}

func (c cri) pull(ctx context.Context, reference string, credential authn.AuthConfig) (string, error) {
	request := &criv1.PullImageRequest{Image: &criv1.ImageSpec{Image: reference}}
	if credential != (authn.AuthConfig{}) {
		request.Auth = &criv1.AuthConfig{
			Username:      credential.Username,
			Password:      credential.Password,
			IdentityToken: credential.IdentityToken,
			RegistryToken: credential.RegistryToken,
		}
	}
	response, err := c.images.PullImage(ctx, request)
	if err != nil {
		return "", fmt.Errorf("containerd: %w", err)
	}
	return response.GetImageRef(), nil
}
