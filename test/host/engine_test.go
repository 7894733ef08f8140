package host

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/topsops/gcu-operator/pkg/hostagent"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// There is no containerd with pods at this root: it may be restarting.
func TestDockerKnowsTheContainerOfTheAgent(t *testing.T) {
	d := startEngine(t, task.Docker)
	const uid, another = "0b0e1d2c-3f4a-4b5c-8d6e-7f8091a2b3c4", "1b0e1d2c-3f4a-4b5c-8d6e-7f8091a2b3c4"
	runPodOf(t, d, uid)
	for podUID, want := range map[string]bool{uid: true, another: false, "": true} {
		o := optionsOf(d, t.TempDir())
		o.PodUID = podUID
		e, err := hostagent.New(o)
		check(t, err)
		facts, err := e.Facts(t.Context(), task.Auto)
		check(t, err)
		if got := facts.Runtime != nil && facts.Runtime.Engine == task.Docker; got != want {
			t.Errorf("of the agent in pod %q: %+v, missing %q", podUID, facts.Runtime, facts.Host.Missing)
		}
	}
}

// runPodOf runs a container as the kubelet labels those of a pod, with programs of this machine.
func runPodOf(t *testing.T, d daemon, uid string) {
	t.Helper()
	api, err := client.New(client.WithHost("unix://" + d.Socket))
	check(t, err)
	t.Cleanup(func() { check(t, api.Close()) })
	var empty bytes.Buffer
	check(t, tar.NewWriter(&empty).Close())
	imported, err := api.ImageImport(t.Context(), client.ImageImportSource{Source: &empty, SourceName: "-"}, "empty:1", client.ImageImportOptions{})
	check(t, err)
	_, err = io.Copy(io.Discard, imported)
	check(t, errors.Join(err, imported.Close()))
	var programs []string
	for _, path := range []string{"/usr", "/bin", "/lib", "/lib64"} {
		if _, err := os.Stat(path); err == nil { // docker would make one that is absent
			programs = append(programs, path+":"+path+":ro")
		}
	}
	created, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{
		Config:     &container.Config{Image: "empty:1", Cmd: []string{"sleep", "600"}, Labels: map[string]string{"io.kubernetes.pod.uid": uid}},
		HostConfig: &container.HostConfig{NetworkMode: "none", Binds: programs},
	})
	check(t, err)
	t.Cleanup(func() {
		_, err := api.ContainerRemove(context.Background(), created.ID, client.ContainerRemoveOptions{Force: true})
		check(t, err)
	})
	_, err = api.ContainerStart(t.Context(), created.ID, client.ContainerStartOptions{})
	check(t, err)
}
