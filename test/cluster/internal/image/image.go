// Package image builds container images without a registry or a container runtime:
// one layer of files without dependencies, such as static programs.
package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Spec describes an image.
type Spec struct {
	// Tag is its name, such as "example/agent:v1".
	Tag string
	// Files are its contents.
	Files []File
	// Entrypoint is the program with its first arguments; nil for none.
	Entrypoint []string
	// Env are its environment variables, each NAME=VALUE.
	Env []string
}

// File is a file, or a folder with its contents.
type File struct {
	// Source is its path on this machine.
	Source string
	// Destination is its absolute path in the image.
	Destination string
}

// ParseFile reads "SOURCE:DESTINATION".
func ParseFile(s string) (File, error) {
	source, destination, found := strings.Cut(s, ":")
	if !found || source == "" || !path.IsAbs(destination) {
		return File{}, fmt.Errorf("a file must be SOURCE:/DESTINATION, not %q", s)
	}
	return File{Source: source, Destination: destination}, nil
}

// Write writes the image to output, as an archive that "docker load" and "ctr image
// import" read. The build is reproducible: owners and times are omitted.
func Write(output string, s Spec) error {
	tag, err := name.NewTag(s.Tag)
	if err != nil {
		return fmt.Errorf("naming the image: %w", err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		go func() { writer.CloseWithError(writeLayer(writer, s.Files)) }()
		return reader, nil
	})
	if err != nil {
		return fmt.Errorf("packing the files of image %s: %w", s.Tag, err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return fmt.Errorf("making image %s: %w", s.Tag, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return fmt.Errorf("making image %s: %w", s.Tag, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", runtime.GOARCH
	config.Config = v1.Config{Entrypoint: s.Entrypoint, Env: s.Env}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return fmt.Errorf("making image %s: %w", s.Tag, err)
	}
	if err := tarball.WriteToFile(output, tag, image); err != nil {
		return errors.Join(fmt.Errorf("writing image %s: %w", s.Tag, err), os.RemoveAll(output))
	}
	return nil
}

func writeLayer(out io.Writer, files []File) error {
	archive := tar.NewWriter(out)
	for _, f := range files {
		err := filepath.WalkDir(f.Source, func(source string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			below, err := filepath.Rel(f.Source, source)
			if err != nil {
				return err
			}
			destination := path.Join(f.Destination, filepath.ToSlash(below))
			if destination == "/" {
				return nil
			}
			return addFile(archive, source, destination)
		})
		if err != nil {
			return err
		}
	}
	return archive.Close()
}

func addFile(archive *tar.Writer, source, destination string) error {
	info, err := os.Lstat(source)
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(source); err != nil {
			return err
		}
	}
	full, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: full.Typeflag, Name: strings.TrimPrefix(destination, "/"), Linkname: link, Size: full.Size, Mode: full.Mode}
	if err := archive.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
		return err
	}
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	_, err = io.Copy(archive, file)
	return errors.Join(err, file.Close())
}
