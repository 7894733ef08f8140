package realnode

import (
	"bytes"
	"context"
	"fmt"
	"os"
)

// LoadImage loads the images of an archive into a node's containerd, for the kubelet,
// and into its dockerd.
func (n Nodes) LoadImage(ctx context.Context, name, archive string) error {
	loaders := [][]string{{"ctr", "--namespace", "k8s.io", "image", "import", "-"}}
	if name == n.DockerNode {
		loaders = append(loaders, []string{"docker", "load"})
	}
	for _, loader := range loaders {
		if err := n.load(ctx, name, archive, loader); err != nil {
			return fmt.Errorf("loading %s into node %s: %w", archive, name, err)
		}
	}
	return nil
}

func (n Nodes) load(ctx context.Context, name, archive string, loader []string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	// An error closing a file that was read is harmless.
	defer func() { _ = file.Close() }()
	var printed bytes.Buffer
	if err := n.Exec(ctx, name, file, &printed, &printed, loader...); err != nil {
		return fmt.Errorf("%s: %w: %s", loader[0], err, bytes.TrimSpace(printed.Bytes()))
	}
	return nil
}
