package main

import (
	"archive/tar"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// file is a file of an image: the content of a file here, a text, or a link.
type file struct {
	// path is absolute, in the image.
	path   string
	source string
	text   string
	link   string
	mode   fs.FileMode
}

// fileSet is the content of an image. All of it is root's.
type fileSet []file

// applets are what the image of the stand-ins has of busybox: what the probes of the components
// and the tests of real nodes run.
var applets = []string{"/bin/cat", "/bin/grep", "/bin/ls", "/bin/sh", "/usr/bin/nsenter", "/usr/bin/test"}

// shell is busybox with its applets.
func shell(busybox string) fileSet {
	files := fileSet{{path: "/bin/busybox", source: busybox, mode: 0o755}}
	for _, applet := range applets {
		files = append(files, file{path: applet, link: "/bin/busybox"})
	}
	return files
}

// findBusybox returns the path of one that needs no libraries.
func findBusybox() (string, error) {
	const install = "install what Debian calls busybox-static"
	found, err := exec.LookPath("busybox")
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, install)
	}
	program, err := elf.Open(found)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", found, err)
	}
	defer func() { _ = program.Close() }() // it was read
	if program.Section(".interp") != nil {
		return "", fmt.Errorf("%s needs libraries, which the images do not have: %s", found, install)
	}
	return found, nil
}

// sorted returns the files in the order of their paths, with the folders they are in.
func (s fileSet) sorted() fileSet {
	all := slices.Clone(s)
	known := map[string]bool{"/": true}
	for _, f := range s {
		for folder := path.Dir(f.path); !known[folder]; folder = path.Dir(folder) {
			known[folder] = true
			all = append(all, file{path: folder, mode: fs.ModeDir | 0o755})
		}
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return all
}

// pack writes the files as a layer. Times are left out.
func (s fileSet) pack(out io.Writer) error {
	archive := tar.NewWriter(out)
	for _, f := range s.sorted() {
		if err := f.pack(archive); err != nil {
			return fmt.Errorf("packing %s: %w", f.path, err)
		}
	}
	return archive.Close()
}

func (f file) pack(archive *tar.Writer) error {
	header := &tar.Header{Name: strings.TrimPrefix(f.path, "/"), Mode: int64(f.mode.Perm())}
	switch {
	case f.mode.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
		return archive.WriteHeader(header)
	case f.link != "":
		header.Typeflag, header.Linkname, header.Mode = tar.TypeSymlink, f.link, 0o777
		return archive.WriteHeader(header)
	}
	data, err := f.data()
	if err != nil {
		return err
	}
	header.Typeflag, header.Size = tar.TypeReg, int64(len(data))
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = archive.Write(data)
	return err
}

func (f file) data() ([]byte, error) {
	if f.source == "" {
		return []byte(f.text), nil
	}
	return os.ReadFile(f.source)
}

// unpack writes the files below a folder.
func (s fileSet) unpack(root string) error {
	for _, f := range s.sorted() {
		if err := f.unpack(filepath.Join(root, f.path)); err != nil {
			return fmt.Errorf("unpacking %s: %w", f.path, err)
		}
	}
	return nil
}

func (f file) unpack(to string) error {
	switch {
	case f.mode.IsDir():
		return os.MkdirAll(to, f.mode.Perm())
	case f.link != "":
		return os.Symlink(f.link, to)
	}
	data, err := f.data()
	if err != nil {
		return err
	}
	// The mode of a new file loses what the umask takes.
	return errors.Join(os.WriteFile(to, data, f.mode.Perm()), os.Chmod(to, f.mode.Perm()))
}
