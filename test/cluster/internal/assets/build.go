package assets

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/topsops/gcu-operator/test/cluster/internal/progress"
)

const (
	// partialPrefix is the prefix of programs that are being built.
	partialPrefix = ".building-"
	// shownErrorLines is how many lines of a failed build's output are shown.
	shownErrorLines = 20
)

// build builds missing programs. The caller holds the lock, so programs that another
// process built meanwhile are found, and partial builds can be removed.
func (a Assets) build(ctx context.Context, out *progress.Printer) error {
	missing := a.missing()
	if len(missing) == 0 {
		return nil
	}
	if err := a.removePartial(); err != nil {
		return err
	}
	if _, err := exec.LookPath("go"); err != nil {
		return fmt.Errorf("building the control plane needs the go command: %w", err)
	}
	source, err := os.MkdirTemp("", "testcluster-source-")
	if err != nil {
		return fmt.Errorf("making a folder for the control plane's module: %w", err)
	}
	// A leftover source folder is harmless.
	defer func() { _ = os.RemoveAll(source) }()
	for i, module := range a.modules {
		if err := writeModule(module, folderOf(source, i)); err != nil {
			return err
		}
	}
	out.Printf("building the control plane into %s; a cold build takes about ten minutes", a.Dir)
	for i, b := range missing {
		if err := a.buildOne(ctx, source, b, out, fmt.Sprintf("%d/%d", i+1, len(missing))); err != nil {
			return err
		}
	}
	return nil
}

// folderOf returns the folder of a module.
func folderOf(source string, module int) string { return filepath.Join(source, strconv.Itoa(module)) }

func (a Assets) removePartial() error {
	left, err := filepath.Glob(filepath.Join(a.Dir, partialPrefix+"*"))
	if err != nil {
		return fmt.Errorf("listing interrupted builds: %w", err)
	}
	for _, path := range left {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("removing an interrupted build: %w", err)
		}
	}
	return nil
}

func (a Assets) buildOne(ctx context.Context, source string, b binary, out *progress.Printer, count string) error {
	version, module, err := versionIn(a.modules, b)
	if err != nil {
		return err
	}
	out.Printf("building %s %s (%s) ...", b.name, version, count)
	start := time.Now()
	partial := a.Path(partialPrefix + b.name)
	if err := goBuild(ctx, folderOf(source, module), b.pkg, partial, buildFlags(a.KubernetesVersion)); err != nil {
		return errors.Join(fmt.Errorf("building %s: %w", b.name, err), removeIfThere(partial))
	}
	if err := os.Rename(partial, a.Path(b.name)); err != nil {
		return fmt.Errorf("installing the built %s: %w", b.name, err)
	}
	out.Printf("... done in %s", time.Since(start).Round(time.Second))
	return nil
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a half-built program: %w", err)
	}
	return nil
}

// goBuild builds one package of the module in source. The user's workspace, build
// flags and C compiler must not affect the result.
func goBuild(ctx context.Context, source, pkg, output string, flags []string) error {
	args := append([]string{"build"}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", output, pkg)...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	// An interrupt must also end the compilers that go starts.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed
	err := cmd.Run()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, lastLines(printed.String(), shownErrorLines))
	}
	return nil
}

// lastLines returns the last n lines of text, without go's download messages.
func lastLines(text string, n int) string {
	var lines []string
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "go: downloading ") {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
