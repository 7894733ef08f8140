package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// image is a name of an archive's files, and how they are run.
type image struct {
	tag    string
	config v1.Config
}

// write writes an archive of images that have the same files: they are in it once.
func write(path string, files fileSet, images []image) error {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		go func() { writer.CloseWithError(files.pack(writer)) }()
		return reader, nil
	})
	if err != nil {
		return fmt.Errorf("packing %s: %w", path, err)
	}
	content, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return fmt.Errorf("packing %s: %w", path, err)
	}
	named := map[name.Tag]v1.Image{}
	for _, i := range images {
		tag, err := name.NewTag(i.tag)
		if err != nil {
			return err
		}
		config, err := content.ConfigFile()
		if err != nil {
			return fmt.Errorf("making image %s: %w", i.tag, err)
		}
		config = config.DeepCopy()
		config.OS, config.Architecture, config.Config = "linux", runtime.GOARCH, i.config
		if named[tag], err = mutate.ConfigFile(content, config); err != nil {
			return fmt.Errorf("making image %s: %w", i.tag, err)
		}
	}
	if err := tarball.MultiWriteToFile(path, named); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.RemoveAll(path))
	}
	return nil
}
