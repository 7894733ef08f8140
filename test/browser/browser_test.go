package browser

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/test/apiserver"
	"github.com/topsops/gcu-operator/test/install"
)

// patience is for one step.
const patience = time.Minute

// programs is the folder of kubectl-gcu, built by TestMain.
var programs string

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // silences controller-runtime's clients
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "gcu-browser-"); err == nil {
		defer func() { _ = os.RemoveAll(programs) }()
		err = prepare(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return apiserver.Run(m)
}

func prepare(ctx context.Context) error {
	needed := []string{"chromium"}
	if os.Getenv("SCREENSHOTS") != "" {
		needed = append(needed, install.ChineseFont)
	}
	if err := install.Programs(ctx, needed...); err != nil {
		return err
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join("..", ".."), "-o", programs, "./cmd/kubectl-gcu")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	return build.Run()
}

// dashboard is a running kubectl gcu dashboard.
type dashboard struct {
	url     string
	process *os.Process
	ended   chan struct{}
}

// startDashboard starts it for a user, until the end of the test.
func startDashboard(t *testing.T, user *rest.Config) *dashboard {
	t.Helper()
	dir := t.TempDir()
	command := exec.Command(filepath.Join(programs, "kubectl-gcu"), "dashboard", "--kubeconfig", apiserver.KubeconfigOf(t, user), "--cache-dir", filepath.Join(dir, "cache"))
	var printed bytes.Buffer
	command.Stderr = &printed
	t.Cleanup(func() {
		if text := printed.String(); text != "" {
			t.Errorf("kubectl gcu dashboard printed, besides its address:\n%s", text)
		}
	})
	output, err := command.StdoutPipe()
	check(t, err)
	check(t, command.Start())
	d := &dashboard{process: command.Process, ended: make(chan struct{})}
	t.Cleanup(d.stop)
	lines := bufio.NewScanner(output)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "http://") {
		t.Log(lines.Text())
	}
	d.url = lines.Text()
	go func() {
		defer close(d.ended)
		for lines.Scan() {
		}
		_ = command.Wait() // ended by a signal
	}()
	if d.url == "" {
		t.Fatal("it printed no address")
	}
	return d
}

// stop ends it as Ctrl-C does.
func (d *dashboard) stop() {
	_ = d.process.Signal(syscall.SIGINT) // it may have ended
	<-d.ended
}

// page is a tab of Chromium.
type page struct {
	t   *testing.T
	ctx context.Context
}

// open opens an address in a new Chromium with its own profile.
func open(t *testing.T, url string) *page {
	t.Helper()
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath("chromium"), chromedp.WindowSize(1200, 900))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root may not use
	}
	allocated, stop := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocated)
	t.Cleanup(func() {
		_ = chromedp.Cancel(ctx) // waits until Chromium has ended
		cancel()
		stop()
	})
	p := &page{t, ctx}
	check(t, chromedp.Do(ctx, chromedp.Navigate("about:blank"))) // starts it for as long as ctx
	p.do(chromedp.Navigate(url), chromedp.WaitReady("#main section"))
	return p
}

// do carries out actions.
func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		p.t.Fatalf("%v; the page shows:\n%.4000s", err, p.text())
	}
}

// text returns what the page shows.
func (p *page) text() string {
	ctx, cancel := context.WithTimeout(p.ctx, 10*time.Second)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
	if err != nil {
		return err.Error()
	}
	return text
}

// awaits waits until an expression of JavaScript is true.
func (p *page) awaits(expression string) {
	p.t.Helper()
	value(p, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(patience)))
}

// eval evaluates an expression of JavaScript, and awaits it if it is a promise.
func eval[T any](p *page, expression string) T {
	p.t.Helper()
	return value(p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// value returns the value of an action.
func value[T any](p *page, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, 2*patience)
	defer cancel()
	v, err := chromedp.Run(ctx, action)
	if err != nil {
		p.t.Fatalf("%v; the page shows:\n%.4000s", err, p.text())
	}
	return v
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
