package realnode

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// run runs a program and returns its output. An error contains its error output.
func run(ctx context.Context, input io.Reader, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var out, failed strings.Builder
	cmd.Stdin, cmd.Stdout, cmd.Stderr = input, &out, &failed
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", program, strings.Join(args, " "), err, strings.TrimSpace(failed.String()))
	}
	return out.String(), nil
}

// ip runs commands of ip(8), one per line, in a network namespace unless that is empty.
func ip(ctx context.Context, namespace string, lines ...string) error {
	args := []string{"-batch", "-"}
	if namespace != "" {
		args = append([]string{"-netns", namespace}, args...)
	}
	_, err := run(ctx, strings.NewReader(strings.Join(lines, "\n")+"\n"), "ip", args...)
	return err
}
