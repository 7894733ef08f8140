package upgradeapi

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"syscall"

	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// readBlueprint reads a file of the blueprint directory. A link is followed
// within the directory and nowhere else; only a regular file of at most
// request.MaxBytes is read (contract statement 80). A file that is absent is 404.
func readBlueprint(directory, name string) ([]byte, error) {
	if err := request.CheckBlueprintName(name); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, request.Refuse(http.StatusNotFound, "the blueprint directory cannot be opened: %v", err)
	}
	defer func() { _ = root.Close() }()
	// A named pipe or a device must not block, nor do anything, by being opened.
	if info, err := root.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, request.BadRequest("blueprint %s is not a regular file", name)
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, request.Refuse(http.StatusNotFound, "blueprint %q not found in %s on the node of the manager", name, directory)
	}
	if err != nil {
		return nil, request.BadRequest("blueprint %s cannot be opened: %v", name, err)
	}
	defer func() { _ = file.Close() }()
	return readRegular(file, name)
}

// readRegular reads an open file, which may have been replaced since it was
// looked at. One that is written meanwhile is a conflict: half of a YAML document
// is a document too, which deploys half of the components.
func readRegular(file fs.File, name string) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("looking at blueprint %s: %w", name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, request.BadRequest("blueprint %s is not a regular file", name)
	}
	data, err := io.ReadAll(io.LimitReader(file, request.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading blueprint %s: %w", name, err)
	}
	if len(data) > request.MaxBytes {
		return nil, request.BadRequest("blueprint %s is larger than %d bytes", name, request.MaxBytes)
	}
	after, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("looking at blueprint %s: %w", name, err)
	}
	if after.Size() != int64(len(data)) || after.ModTime() != info.ModTime() {
		return nil, request.Conflict("blueprint %s is being written: send the request again when it is complete", name)
	}
	return data, nil
}
