// Release makes everything that the page of a release holds, without a network once make fetch
// has run, and the same files each time it is run for a commit:
//
//	release --version v1.2.3 --output DIR --nfpm PROGRAM --syft PROGRAM [--key FILE] [--check] [--dirty]
//
// It is run in the root of the project (make release).
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
)

// semantic is what a version must look like.
var semantic = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

func main() {
	flags := flag.NewFlagSet("release", flag.ExitOnError)
	r := release{}
	flags.StringVar(&r.version, "version", "", "`version`, such as v1.2.3")
	flags.StringVar(&r.output, "output", "", "`folder` for the files, which is emptied first")
	flags.StringVar(&r.nfpm, "nfpm", "", "`program` that makes packages; none: no deb and no rpm")
	flags.StringVar(&r.syft, "syft", "", "`program` that lists what is in programs")
	again := flags.Bool("check", false, "make everything a second time, and compare the sums")
	flags.BoolVar(&r.dirty, "dirty", false, "accept changes that are not committed; for trying")
	flags.StringVar(&r.key, "key", "", "`file` with a private ECDSA key in PEM, to sign the checksums; empty: not signed")
	_ = flags.Parse(os.Args[1:]) // ends the program
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := r.run(ctx)
	if err == nil && *again {
		err = r.compare(ctx)
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r *release) run(ctx context.Context) (err error) {
	if !semantic.MatchString(r.version) {
		return fmt.Errorf("--version %q is not a version such as v1.2.3: make release VERSION=v1.2.3", r.version)
	}
	if r.output == "" {
		return errors.New("--output is required")
	}
	if err := r.hasTools(); err != nil {
		return err
	}
	if err := r.isCommitted(ctx); err != nil {
		return err
	}
	if r.built, err = commitTime(ctx); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "release"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.work)) }()
	if err := errors.Join(os.RemoveAll(r.output), os.MkdirAll(r.output, 0o755)); err != nil { //nolint:gosec // G301: a folder for everybody to read
		return err
	}
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"programs", r.compile},
		{"images", r.images},
		{"install.yaml", r.manifests},
		{"scripts for a mirror", r.scripts},
		{"chart", r.chart},
		{"archives", r.archives},
		{"deb and rpm of the node agent", r.packages},
		{"lists of what is in the programs", r.contents},
		{"krew's manifest", r.krew},
		{"notes", r.notes},
		{"the list of files", r.isComplete},
		{"checksums", r.checksums},
	}
	for i, s := range steps {
		fmt.Printf("[%d/%d] %s\n", i+1, len(steps), s.what)
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	return r.list()
}

// compare makes the release again, in another folder and with another cache of what is compiled, and compares names and
// sums. Signatures are not among them.
func (r *release) compare(ctx context.Context) (err error) {
	before, err := os.ReadFile(r.file(checksumFile))
	if err != nil {
		return err
	}
	second := *r
	if second.output, err = os.MkdirTemp("", "release-again"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(second.output)) }()
	if second.cache, err = os.MkdirTemp("", "release-cache"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(second.cache)) }()
	if err := second.run(ctx); err != nil {
		return err
	}
	after, err := os.ReadFile(second.file(checksumFile))
	if err != nil {
		return err
	}
	if !bytes.Equal(before, after) {
		return fmt.Errorf("the second release of the same commit has other sums:\n%s\nthe first:\n%s", after, before)
	}
	fmt.Println("made twice: the sums are the same")
	return nil
}
