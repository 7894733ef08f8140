package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
)

// LoadImages loads image archives into all real nodes.
func (c *Cluster) LoadImages(ctx context.Context, progress io.Writer, archives ...string) error {
	if c.hooks != nil && c.hooks.Load == "" {
		return nil
	}
	if c.hooks != nil {
		return c.hooks.run(ctx, c.hooks.Load, nil, progress, archives...)
	}
	_, err := c.testcluster(ctx, progress, append([]string{"load-image"}, archives...)...)
	return err
}

// OnNode runs a program on a real node, like an administrator logged in there, and
// returns its output. Errors contain its error output.
func (c *Cluster) OnNode(ctx context.Context, node string, input io.Reader, argv ...string) (string, error) {
	if c.hooks != nil {
		var stdout bytes.Buffer
		err := c.hooks.run(ctx, c.hooks.OnNode, input, &stdout, append([]string{node}, argv...)...)
		return stdout.String(), err
	}
	program, err := c.Project.Program("testcluster")
	if err != nil {
		return "", err
	}
	var stdout, stderr bytes.Buffer
	command := interruptible(ctx, program, append([]string{"node-exec", "--dir", c.Dir, node, "--"}, argv...)...)
	command.Stdin, command.Stdout, command.Stderr = input, &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.String(), fmt.Errorf("on node %s: %s: %w: %s", node, strings.Join(argv, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

// KillNodes powers real nodes off: all their processes are killed at once. It does not
// wait until they are NotReady.
func (c *Cluster) KillNodes(ctx context.Context, names ...string) error {
	_, err := c.testcluster(ctx, io.Discard, append([]string{"node-kill", "--wait=false"}, names...)...)
	return err
}

// StartNodes boots real nodes that are powered off, and waits until they are Ready.
func (c *Cluster) StartNodes(ctx context.Context, names ...string) error {
	_, err := c.testcluster(ctx, io.Discard, append([]string{"node-start"}, names...)...)
	return err
}
