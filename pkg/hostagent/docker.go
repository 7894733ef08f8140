package hostagent

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// docker is a client of dockerd, API 1.40 (docker 19.03) and newer.
type docker struct{ api *client.Client }

func newDocker(socket string) (engine, error) {
	api, err := client.New(client.WithHost("unix://" + socket))
	if err != nil {
		return nil, fmt.Errorf("connecting to docker: %w", err)
	}
	return docker{api}, nil
}

func (d docker) close() error { return d.api.Close() }

func (d docker) status(ctx context.Context) (engineStatus, error) {
	if _, err := d.api.Ping(ctx, client.PingOptions{}); err != nil {
		return engineStatus{}, fmt.Errorf("asking docker: %w", err)
	}
	result, err := d.api.Info(ctx, client.InfoOptions{})
	if err != nil {
		return engineStatus{}, fmt.Errorf("asking docker: %w", err)
	}
	runtime := task.RuntimeFacts{Version: result.Info.ServerVersion, Default: result.Info.DefaultRuntime, RestartStopsContainers: !result.Info.LiveRestoreEnabled}
	return engineStatus{runtime, result.Info.DockerRootDir}, nil
}

func (d docker) runningContainers(ctx context.Context, podUID string) (int, error) {
	filters := make(client.Filters).Add("label", podUIDLabel+"="+podUID)
	result, err := d.api.ContainerList(ctx, client.ContainerListOptions{Filters: filters})
	if err != nil {
		return 0, fmt.Errorf("listing containers of docker: %w", err)
	}
	running := 0
	for _, c := range result.Items {
		if c.State == container.StateRunning && c.Labels["io.kubernetes.docker.type"] != "podsandbox" {
			running++
		}
	}
	return running, nil
}

func (d docker) image(ctx context.Context, reference string) (string, error) {
	result, err := d.api.ImageInspect(ctx, reference)
	if errdefs.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("asking docker for the image: %w", err)
	}
	return result.ID, nil
}

func (d docker) pull(ctx context.Context, reference string, credential authn.AuthConfig) (id string, err error) {
	var options client.ImagePullOptions
	if credential != (authn.AuthConfig{}) {
		options.RegistryAuth, err = authconfig.Encode(registry.AuthConfig{
			Username:      credential.Username,
			Password:      credential.Password,
			IdentityToken: credential.IdentityToken,
			RegistryToken: credential.RegistryToken,
		})
		if err != nil {
			return "", fmt.Errorf("encoding the credential: %w", err)
		}
	}
	response, err := d.api.ImagePull(ctx, reference, options)
	if err != nil {
		return "", fmt.Errorf("docker: %w", err)
	}
	// The response is a stream; its last message may be an error.
	if err := errors.Join(response.Wait(ctx), response.Close()); err != nil {
		return "", fmt.Errorf("docker: %w", err)
	}
	return d.image(ctx, reference)
}
