package bundle

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
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
// objects the file is empty, which shows that there were none. The objects are in memory one by one: meanwhile the
// content is in spool, which is empty before, because a tarball has the size of a file before its content.
func (b *Bundle) Objects(file string, objects iter.Seq[map[string]any], spool io.ReadWriteSeeker) error {
	size, err := writeObjects(spool, objects)
	if err == nil {
		_, err = spool.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return b.add(file, size, spool)
}

// writeObjects writes objects as YAML documents, and returns how many bytes that are.
func writeObjects(to io.Writer, objects iter.Seq[map[string]any]) (size int64, err error) {
	out := bufio.NewWriter(to)
	for o := range objects {
		data, err := plaintext.YAML(redact(o))
		if err != nil {
			return 0, err
		}
		n, err := out.WriteString("---\n" + data)
		if size += int64(n); err != nil {
			return 0, err
		}
	}
	return size, out.Flush()
}

// Text adds a file with text, such as a log, without secrets and control characters.
func (b *Bundle) Text(file, text string) error {
	content := plaintext.Text(scrub(text))
	return b.add(file, int64(len(content)), strings.NewReader(content))
}

func (b *Bundle) add(file string, size int64, content io.Reader) error {
	header := &tar.Header{Name: path.Join(b.root, file), Mode: 0o600, Size: size, ModTime: b.time, Typeflag: tar.TypeReg}
	if err := b.tar.WriteHeader(header); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	if _, err := io.Copy(b.tar, content); err != nil {
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
