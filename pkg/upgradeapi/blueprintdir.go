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

// readBlueprint reads a file of the blueprint directory. It follows links within the
// directory only, and reads only regular files of at most request.MaxBytes (contract
// statement 80). A missing file is 404.
func readBlueprint(directory, name string) ([]byte, error) {
	if err := request.CheckBlueprintName(name); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, request.Refuse(http.StatusNotFound, "the blueprint directory cannot be opened: %v", err)
	}
	defer func() { _ = root.Close() }()
	// Opening a named pipe or a device could block or have side effects.
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

// readRegular reads an open file, which may have been replaced since the Stat. A file that
// is being written is a conflict: half a YAML document may be valid, and would deploy half
// of the components.
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
