package bundle

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// Bundle is a tarball that is being written. It is not safe for concurrent use.
type Bundle struct {
	zip  *gzip.Writer
	tar  *tar.Writer
	root string
	time time.Time
}

// New starts a gzipped tarball whose files are below the folder root and have the time now.
// Close finishes it.
func New(out io.Writer, root string, now time.Time) *Bundle {
	zip := gzip.NewWriter(out)
	return &Bundle{zip: zip, tar: tar.NewWriter(zip), root: root, time: now}
}

// Objects adds a YAML file with objects, as decoded from JSON, without secrets. Without
// objects the file is empty, which shows that there were none.
func (b *Bundle) Objects(file string, objects []map[string]any) error {
	var content strings.Builder
	for _, o := range objects {
		data, err := plaintext.YAML(redact(o))
		if err != nil {
			return fmt.Errorf("writing %s: %w", file, err)
		}
		content.WriteString("---\n")
		content.WriteString(data)
	}
	return b.add(file, content.String())
}

// Text adds a file with text, such as a log, without secrets and control characters.
func (b *Bundle) Text(file, text string) error { return b.add(file, plaintext.Text(scrub(text))) }

func (b *Bundle) add(file, content string) error {
	header := &tar.Header{Name: path.Join(b.root, file), Mode: 0o600, Size: int64(len(content)), ModTime: b.time, Typeflag: tar.TypeReg}
	if err := b.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if _, err := io.WriteString(b.tar, content); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return nil
}

// Close finishes the tarball; before that it cannot be read.
func (b *Bundle) Close() error {
	if err := errors.Join(b.tar.Close(), b.zip.Close()); err != nil {
		return fmt.Errorf("ending the tarball: %w", err)
	}
	return nil
}
