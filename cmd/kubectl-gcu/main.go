package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // time zones of maintenance windows, on any machine

	"github.com/go-logr/logr"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/pkg/plaintext"
)

func main() {
	log.SetLogger(logr.Discard()) // the commands say themselves what is wrong; without it controller-runtime prints a stack
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs the program and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	stdout, stderr = plaintext.NewWriter(stdout), plaintext.NewWriter(stderr)
	command := newRoot(genericiooptions.IOStreams{In: stdin, Out: stdout, ErrOut: stderr})
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	code := exitCode(ctx, err)
	switch code {
	case exitOK:
	case exitInterrupted:
		fmt.Fprintln(stderr, "interrupted")
	case exitUsage:
		fmt.Fprintln(stderr, "error:", err, "(see kubectl gcu --help)")
	default:
		fmt.Fprintln(stderr, "error:", plaintext.Line(err.Error()))
	}
	return code
}
