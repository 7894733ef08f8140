package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// release is what a run knows.
type release struct {
	version string
	output  string
	// work is a folder that is removed.
	work string
	// nfpm makes packages; none: they are left out.
	nfpm string
	// syft lists what is in programs.
	syft string
	key  string
	// cache is GOCACHE; "" for that of the environment.
	cache string
	// dirty accepts changes that are not committed.
	dirty bool
	// built is the time of the commit, which all files have.
	built time.Time
	// image is repository, tag and digest of the operator.
	image string
}

// golang is call of the go command; cache is its GOCACHE, "" for that of the environment.
func golang(ctx context.Context, cache string, environment []string, args ...string) ([]byte, error) {
	if cache != "" {
		environment = append(environment, "GOCACHE="+cache)
	}
	return call(ctx, environment, "go", args...)
}

// call runs a program with more environment, and returns what it printed.
func call(ctx context.Context, environment []string, program string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, program, args...) //nolint:gosec // G204: the tools of the Makefile
	command.Env = append(os.Environ(), environment...)
	out, err := command.Output()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, fmt.Errorf("%s %s: %w\n%s", filepath.Base(program), strings.Join(args, " "), err, ended.Stderr)
	}
	return out, err
}

// file returns the path of a file of the release.
func (r *release) file(name string) string { return filepath.Join(r.output, name) }

func (r *release) write(name string, content []byte) error {
	return os.WriteFile(r.file(name), content, 0o644) //nolint:gosec // G306: for everybody to read
}

// sumOf returns the SHA-256 of a file.
func sumOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), err
}
