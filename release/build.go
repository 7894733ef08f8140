package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// platform is a system and an architecture, in Go's names.
type platform struct{ os, arch string }

// programs are what is compiled.
var programs = []string{"manager", "node-agent", "kubectl-gcu"}

// archived are those that people put into their PATH.
var archived = []string{"kubectl-gcu", "node-agent"}

// platforms of a program.
var platforms = map[string][]platform{
	"manager":     onLinux,
	"node-agent":  everywhere, // elsewhere than on Linux the client alone
	"kubectl-gcu": everywhere,
}

var (
	onLinux    = []platform{{"linux", "amd64"}, {"linux", "arm64"}}
	everywhere = append([]platform{{"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}}, onLinux...)
)

// program returns the path of a compiled program.
func (r *release) program(name string, p platform) string {
	if p.os == "windows" {
		name += ".exe"
	}
	return filepath.Join(r.work, p.os, p.arch, name)
}

// compile compiles all programs. They are the same on every machine: Go writes no time and, with
// -trimpath, no folder into them.
func (r *release) compile(ctx context.Context) error {
	for _, name := range programs {
		for _, p := range platforms[name] {
			_, err := golang(ctx, r.cache, []string{"GOOS=" + p.os, "GOARCH=" + p.arch, "CGO_ENABLED=0"}, "build", "-trimpath", "-buildvcs=false",
				r.flags(), "-o", r.program(name, p), "./cmd/"+name)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// flags write the version into a program, and into kubectl-gcu the tag of the image.
func (r *release) flags() string {
	return "-ldflags=-s -w -X main.version=" + r.version + " -X main.operatorTag=" + r.version
}

// images packs the operator's images, and notes what they are called.
func (r *release) images(ctx context.Context) error {
	out, err := golang(ctx, r.cache, nil, "run", "./images", "--programs", filepath.Join(r.work, "linux"), "--release", r.output, "--version", r.version)
	r.image = strings.TrimSpace(string(out))
	return err
}

// item is a file of an archive.
type item struct {
	name    string
	content []byte
	mode    int64
}

// archives packs the programs of archived.
func (r *release) archives(context.Context) error {
	for _, name := range archived {
		for _, p := range platforms[name] {
			items, err := r.items(name, p)
			if err != nil {
				return err
			}
			pack := r.tarball
			if p.os == "windows" {
				pack = r.zip
			}
			content, err := pack(items)
			if err != nil {
				return err
			}
			if err := r.write(archive(name, r.version, p), content); err != nil {
				return err
			}
		}
	}
	return nil
}

func archiveName(name, version string, p platform) string {
	return fmt.Sprintf("%s_%s_%s_%s", name, version, p.os, p.arch)
}

// archive returns the name of the file of a program for a platform.
func archive(name, version string, p platform) string {
	if p.os == "windows" {
		return archiveName(name, version, p) + ".zip"
	}
	return archiveName(name, version, p) + ".tar.gz"
}

// items returns the program with its license, and what completes kubectl's plugin.
func (r *release) items(name string, p platform) ([]item, error) {
	program, err := read(0o755, r.program(name, p))
	if err != nil {
		return nil, err
	}
	license, err := read(0o644, license...)
	if err != nil {
		return nil, err
	}
	items := slices.Concat(program, license)
	if name == "kubectl-gcu" && p.os != "windows" {
		completion, err := read(0o755, "cmd/kubectl-gcu/kubectl_complete-gcu")
		if err != nil {
			return nil, err
		}
		items = append(items, completion...)
	}
	return items, nil
}

// license is what goes with every copy of the programs and of the chart.
var license = []string{"LICENSE", "NOTICE"}

// read returns files by their names without folders.
func read(mode int64, paths ...string) ([]item, error) {
	items := make([]item, len(paths))
	for i, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		items[i] = item{filepath.Base(path), content, mode}
	}
	return items, nil
}

func (r *release) tarball(items []item) ([]byte, error) {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, i := range items {
		header := &tar.Header{Name: i.name, Mode: i.mode, Size: int64(len(i.content)), ModTime: r.built, Typeflag: tar.TypeReg}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(i.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	err := zipped.Close()
	return out.Bytes(), err
}

func (r *release) zip(items []item) ([]byte, error) {
	var out bytes.Buffer
	archive := zip.NewWriter(&out)
	for _, i := range items {
		file, err := archive.CreateHeader(&zip.FileHeader{Name: i.name, Method: zip.Deflate, Modified: r.built.UTC()})
		if err != nil {
			return nil, err
		}
		if _, err := file.Write(i.content); err != nil {
			return nil, err
		}
	}
	err := archive.Close()
	return out.Bytes(), err
}
