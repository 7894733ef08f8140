package hostagent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// resolve returns where a path of the host is in this process's file system, without symbolic
// links: they lead where they lead on the host, absolute ones too, and never out of its root. The
// path need not exist. relative is relative to the host root.
func resolve(hostRoot, relative string) (string, error) {
	path, err := securejoin.SecureJoin(hostRoot, relative)
	if err != nil {
		return "", fmt.Errorf("following the links of /%s on the host: %w", relative, err)
	}
	return path, nil
}

// hostFiles are the files below the host root, found by resolve.
type hostFiles struct {
	path string
	root *os.Root
}

var _ fs.FS = hostFiles{}

// openHost opens the host root, which the caller has to close.
func openHost(hostRoot string) (hostFiles, error) {
	root, err := os.OpenRoot(hostRoot)
	if err != nil {
		return hostFiles{}, fmt.Errorf("host root: %w", err)
	}
	return hostFiles{hostRoot, root}, nil
}

func (f hostFiles) close() error { return f.root.Close() }

// open opens a file for reading. If a link that leads out of the root is put there meanwhile,
// os.Root refuses it.
func (f hostFiles) open(relative string) (*os.File, error) {
	path, err := resolve(f.path, relative)
	if err != nil {
		return nil, err
	}
	within, err := filepath.Rel(f.path, path)
	if err != nil {
		return nil, err
	}
	return f.root.Open(within)
}

// Open implements fs.FS. The paths in errors are those of the host.
func (f hostFiles) Open(name string) (fs.File, error) {
	file, err := f.open(name)
	if err == nil {
		return file, nil
	}
	if cause, is := errors.AsType[*fs.PathError](err); is {
		err = cause.Err
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: err}
}
