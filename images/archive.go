package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image is a name of an archive's files, and how they are run.
type image struct {
	tag    string
	config v1.Config
}

// layer packs files.
func layer(files fileSet) (v1.Layer, error) {
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		reader, writer := io.Pipe()
		go func() { writer.CloseWithError(files.pack(writer)) }()
		return reader, nil
	})
}

// on returns the image with its files, for an architecture in Go's name.
func (i image) on(architecture string, files v1.Layer) (v1.Image, error) {
	content, err := mutate.AppendLayers(empty.Image, files)
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", i.tag, err)
	}
	config, err := content.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("making image %s: %w", i.tag, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Config = "linux", architecture, i.config
	return mutate.ConfigFile(content, config)
}

// write writes an archive, for "docker load", of images that have the same files: they are in
// it once.
func write(path, architecture string, files fileSet, images []image) error {
	packed, err := layer(files)
	if err != nil {
		return fmt.Errorf("packing %s: %w", path, err)
	}
	named := map[name.Tag]v1.Image{}
	for _, i := range images {
		tag, err := name.NewTag(i.tag)
		if err != nil {
			return err
		}
		if named[tag], err = i.on(architecture, packed); err != nil {
			return err
		}
	}
	if err := tarball.MultiWriteToFile(path, named); err != nil {
		return errors.Join(fmt.Errorf("writing %s: %w", path, err), os.RemoveAll(path))
	}
	return nil
}

// index makes one image of those of several architectures, which are the keys. It is of OCI's
// media types, so that its digest is the same in every registry.
func (i image) index(files map[string]fileSet, architectures []string) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, architecture := range architectures {
		packed, err := layer(files[architecture])
		if err != nil {
			return nil, fmt.Errorf("packing %s for %s: %w", i.tag, architecture, err)
		}
		one, err := i.on(architecture, packed)
		if err != nil {
			return nil, err
		}
		one = mutate.ConfigMediaType(mutate.MediaType(one, types.OCIManifestSchema1), types.OCIConfigJSON)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: one, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: architecture}},
		})
	}
	return index, nil
}

// writeIndex writes an archive of an index in OCI's layout, for "ctr image import",
// "skopeo copy oci-archive:" and "crane push".
func (i image) writeIndex(path string, index v1.ImageIndex) error {
	folder, err := os.MkdirTemp("", "images")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(folder) }() // a temporary one
	top, err := layout.Write(folder, empty.Index)
	if err != nil {
		return err
	}
	// containerd names the image by the first annotation, others by the second.
	names := map[string]string{"io.containerd.image.name": i.tag, "org.opencontainers.image.ref.name": i.tag}
	if err := top.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return err
	}
	return pack(folder, path)
}

// pack writes the files of a folder into an archive, without their times and owners.
func pack(folder, path string) (err error) {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	var files fileSet
	err = filepath.WalkDir(folder, func(source string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		inside, err := filepath.Rel(folder, source)
		files = append(files, file{path: "/" + filepath.ToSlash(inside), source: source, mode: 0o644})
		return err
	})
	if err != nil {
		return err
	}
	return files.pack(out)
}
