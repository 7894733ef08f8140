// Demo starts a test cluster of 20 nodes and runs the operator's main scenario on it.
//
//	demo [--keep] [--record FILE]
//
// It exits with 1 if a step fails, and cleans up on Ctrl-C too.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/topsops/gcu-operator/test/cast"
	"github.com/topsops/gcu-operator/test/harness"
	"github.com/topsops/gcu-operator/test/story"
)

func main() {
	keep := flag.Bool("keep", false, "keep the cluster and the programs running, and print how to use them")
	record := flag.String("record", "", "also write what is printed to this `FILE`, as an asciicast of version 2")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := recorded(*record, func(out io.Writer, color bool) error { return demo(ctx, out, color, *keep) })
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
}

// The terminal of a recording, in characters.
const width, height = 120, 40

// recorded has a program print to standard output, and in colors to a recording in a file unless its name is empty.
func recorded(file string, run func(out io.Writer, color bool) error) (err error) {
	if file == "" {
		return run(os.Stdout, term.IsTerminal(int(os.Stdout.Fd())))
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	r, err := cast.Record(f, "gcu-operator: make demo", width, height, time.Now)
	if err != nil {
		return err
	}
	return run(io.MultiWriter(os.Stdout, r), true)
}

func demo(ctx context.Context, out io.Writer, color, keep bool) (err error) {
	if _, err := exec.LookPath("curl"); err != nil {
		return errors.New("curl is needed: install it (Debian: apt-get install curl)")
	}
	project, err := harness.FindProject()
	if err != nil {
		return err
	}
	parent, err := os.MkdirTemp("", "gcu-demo-")
	if err != nil {
		return fmt.Errorf("making a folder for the cluster: %w", err)
	}
	begin := time.Now()
	narrator := story.NewNarrator(out, color)
	fmt.Fprintf(out, "A test cluster of %d nodes: real etcd, API server, controller-manager and scheduler, simulated kubelets\n", story.Nodes)
	cluster, err := harness.StartCluster(ctx, project, parent+"/cluster", narrator, "--nodes", strconv.Itoa(story.Nodes), "--zones", "2")
	if err != nil {
		return errors.Join(interrupted(ctx, err), os.RemoveAll(parent))
	}
	if keep {
		if err := cluster.Keep(); err != nil {
			return err
		}
	}
	scenario := story.New(cluster, narrator)
	err = interrupted(ctx, scenario.Tell(ctx))
	if keep && ctx.Err() == nil {
		howToUse(cluster, scenario)
		return err
	}
	err = errors.Join(err, scenario.Stop(), cluster.Stop(narrator), os.RemoveAll(parent))
	if err == nil {
		fmt.Fprintf(out, "\nDone in %s; everything was cleaned up.\n", time.Since(begin).Round(time.Second))
	}
	return err
}

// howToUse prints how to use a kept cluster, and how to remove it.
func howToUse(cluster *harness.Cluster, scenario *story.Story) {
	var pids []string
	for _, p := range scenario.Programs() {
		pids = append(pids, strconv.Itoa(p.PID()))
		fmt.Printf("\n%s serves %s, its log is %s", p.Name(), p.URL, p.Log)
	}
	fmt.Printf("\n\nThe cluster keeps running. Use it with:\n\n  eval \"$(bin/testcluster env --dir %s)\"\n  kubectl get gr,dro,nu -A\n\n", cluster.Dir)
	fmt.Printf("Remove it with:\n\n  kill %s; bin/testcluster down --dir %s; rm -r %s\n",
		strings.Join(pids, " "), cluster.Dir, filepath.Dir(cluster.Dir))
}

// interrupted replaces errors caused by Ctrl-C with one word.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return err
}
