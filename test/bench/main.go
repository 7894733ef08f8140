package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/topsops/gcu-operator/test/harness"
)

// options are the flags as given.
type options struct {
	cases       []benchCase
	repetitions int
	shrink      int
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == slowCommand {
		if err := runSlowClients(os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %v\n", err)
			os.Exit(1)
		}
		return
	}
	o, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v (see bench --help)\n", err)
		os.Exit(2)
	}
	ctrl.SetLogger(logr.Discard()) // silences the harness's clients
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = bench(ctx, o, os.Stdout, os.Stderr)
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "\nbench: %v\n", err)
		os.Exit(1)
	}
}

const help = `bench measures rollouts on test clusters, side by side with Kubernetes' own
RollingUpdate, and prints tables of Markdown. Progress goes to stderr.

It exits with 1 if a rollout did not complete or exceeded its budget; missed time
targets are only reported.

Cases:
`

// parse reads the flags; errors have one line.
func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var names string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&names, "cases", "", "the cases to run, separated by commas; empty for all")
	flags.IntVar(&o.repetitions, "repetitions", 4, "how often each pair of rollouts is run, in random order")
	flags.IntVar(&o.shrink, "shrink", 1, "divide the number of nodes by this, to try out the program; the targets do not apply then")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stderr, help)
			for _, c := range cases() {
				fmt.Fprintf(stderr, "  %-8s %s\n", c.name, c.title)
			}
			fmt.Fprint(stderr, "\nFlags:\n")
			flags.SetOutput(stderr)
			flags.PrintDefaults()
		}
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.repetitions < 1 || o.shrink < 1 {
		return o, errors.New("--repetitions and --shrink must be at least 1")
	}
	if names == "" {
		o.cases = cases()
		return o, nil
	}
	var known []string
	for _, c := range cases() {
		known = append(known, c.name)
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.Index(known, name)
		if i < 0 {
			return o, fmt.Errorf("there is no case %q; there are %s", name, strings.Join(known, ", "))
		}
		o.cases = append(o.cases, cases()[i])
	}
	return o, nil
}

// bench runs the cases one after the other and prints their results, even if one of
// them fails.
func bench(ctx context.Context, o options, out, progress io.Writer) error {
	project, err := harness.FindProject()
	if err != nil {
		return err
	}
	report := &report{machine: machine(), began: time.Now()}
	var errs []error
	for _, c := range o.cases {
		fmt.Fprintf(progress, "\n%s: %s\n", c.name, c.title)
		if err := c.measure(ctx, project, o, report, progress); err != nil {
			errs = append(errs, fmt.Errorf("case %s: %w", c.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	report.print(out)
	return errors.Join(errs...)
}
