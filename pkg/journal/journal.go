package journal

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
)

const (
	fileSuffix     = ".json"
	previousSuffix = ".previous"
	corruptSuffix  = ".corrupt"
	unfinishedName = ".new-"
	completeName   = ".complete"
)

// Journal is a directory of values. It is not safe for concurrent use, and
// belongs to one process.
type Journal[T any] struct {
	directory string
	kind      Kind[T]
	// missing is true while the directory could not be made.
	missing bool
	// sync makes what was written to a file survive a power failure.
	sync func(*os.File) error
}

// Content is what a journal contained when it was opened.
type Content[T any] struct {
	// Values in the order of their ids; for a torn file, its previous generation.
	Values []T
	// Incomplete is true when values may be missing or old: there was no journal, or a file had
	// to be set aside, now or earlier, and Complete was not called since then.
	Incomplete bool
	// Lost are the ids of which every generation is set aside, now or earlier, sorted. Only
	// kinds with KeepPrevious have them.
	Lost []string
}

// Open returns the journal in a directory, which is created if absent, and its content.
// Unusable files are set aside and logged. It returns an error when the directory is not
// writable, unless that is because the disk takes no writes now: then it is logged, and each change fails until it does. The first one
// after that creates the directory.
func Open[T any](directory string, kind Kind[T], log logr.Logger) (*Journal[T], Content[T], error) {
	j := &Journal[T]{directory: directory, kind: kind, missing: true, sync: (*os.File).Sync}
	if err := j.makeDirectory(); DiskFails(err) && isAbsent(directory) {
		log.Error(err, "Cannot make the state directory, starting without what may have been recorded", "directory", directory)
		return j, Content[T]{Incomplete: true}, nil
	} else if err != nil {
		return nil, Content[T]{}, err
	}
	if err := j.checkWritable(); DiskFails(err) {
		log.Error(err, "Cannot write to the state directory, using what is in it", "directory", directory)
	} else if err != nil {
		return nil, Content[T]{}, err
	}
	ids, err := j.list()
	if err != nil {
		return nil, Content[T]{}, err
	}
	_, err = os.Lstat(filepath.Join(directory, completeName))
	content := Content[T]{Incomplete: err != nil}
	for _, id := range ids {
		if err := j.load(id, &content, log); err != nil {
			return nil, Content[T]{}, err
		}
	}
	return j, content, nil
}

// makeDirectory makes the directory unless that was done.
func (j *Journal[T]) makeDirectory() error {
	if !j.missing {
		return nil
	}
	if err := os.MkdirAll(j.directory, 0o700); err != nil {
		return fmt.Errorf("making the state directory: %w", err)
	}
	j.missing = false
	return nil
}

// isAbsent reports whether it is certain that there is no such file: on a disk that cannot be read there may be one.
func isAbsent(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, os.ErrNotExist)
}

// DiskFails reports whether an error means that the disk accepts no writes now, which an administrator can repair: it is full, broken, or
// made read-only by the kernel.
func DiskFails(err error) bool {
	return slices.ContainsFunc([]error{syscall.EROFS, syscall.ENOSPC, syscall.EDQUOT, syscall.EIO}, func(cause error) bool { return errors.Is(err, cause) })
}

// checkWritable detects at start, and not at the first value, that nothing can be written.
func (j *Journal[T]) checkWritable() error {
	probe, err := os.CreateTemp(j.directory, unfinishedName)
	if err != nil {
		return fmt.Errorf("writing to the state directory: %w", err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// list removes unfinished files and returns the ids of the others, sorted.
func (j *Journal[T]) list() ([]string, error) {
	files, err := os.ReadDir(j.directory)
	if err != nil {
		return nil, fmt.Errorf("listing the journal: %w", err)
	}
	var ids []string
	for _, file := range files {
		if strings.HasPrefix(file.Name(), unfinishedName) {
			if err := os.Remove(filepath.Join(j.directory, file.Name())); err != nil && !DiskFails(err) {
				return nil, fmt.Errorf("removing an unfinished file: %w", err)
			}
			continue
		}
		name := strings.TrimSuffix(strings.TrimSuffix(file.Name(), corruptSuffix), previousSuffix)
		if id, ok := strings.CutSuffix(name, fileSuffix); ok {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// load adds the value of one id to content: its newest usable generation.
func (j *Journal[T]) load(id string, content *Content[T], log logr.Logger) error {
	corrupt := 0
	for _, name := range j.generations(id) {
		v, err := j.read(id, name)
		if err == nil {
			content.Values = append(content.Values, v)
			return nil
		}
		if errors.Is(err, os.ErrNotExist) {
			if _, err := os.Lstat(filepath.Join(j.directory, name+corruptSuffix)); err == nil {
				corrupt++
			}
			continue
		}
		corrupt++
		content.Incomplete = true
		if err := j.setAside(name, err, log); err != nil && !DiskFails(err) { // it is found again at the next start
			return err
		}
	}
	if j.kind.KeepPrevious && corrupt == len(j.generations(id)) {
		content.Lost = append(content.Lost, id)
	}
	return nil
}

// generations returns the file names of an id, newest first.
func (j *Journal[T]) generations(id string) []string {
	if j.kind.KeepPrevious {
		return []string{id + fileSuffix, id + fileSuffix + previousSuffix}
	}
	return []string{id + fileSuffix}
}

func (j *Journal[T]) read(id, name string) (v T, err error) {
	var none T
	file, err := os.Open(filepath.Join(j.directory, name))
	if err != nil {
		return none, err
	}
	data, err := io.ReadAll(io.LimitReader(file, int64(j.kind.maxBytes())+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return none, err
	}
	v, err = j.kind.Decode(data)
	if err != nil {
		return none, err
	}
	if held := j.kind.ID(v); held != id {
		return none, fmt.Errorf("it holds %q", held)
	}
	return v, nil
}

// setAside renames an unusable file, so that a person can examine it. The journal counts as incomplete first, because the
// file is not found again.
func (j *Journal[T]) setAside(name string, cause error, log logr.Logger) error {
	path := filepath.Join(j.directory, name)
	log.Info("Setting aside a journal file that cannot be used", "file", path+corruptSuffix, "cause", cause.Error())
	if err := j.markIncomplete(); err != nil {
		return fmt.Errorf("recording that the journal is incomplete: %w", err)
	}
	if err := os.Rename(path, path+corruptSuffix); err != nil {
		return fmt.Errorf("setting aside journal file %s: %w", name, err)
	}
	return nil
}

func (j *Journal[T]) markIncomplete() error {
	err := os.Remove(filepath.Join(j.directory, completeName))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	return j.syncDirectory()
}

// Complete records that what the journal lacked was restored.
func (j *Journal[T]) Complete() error {
	if err := j.makeDirectory(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(j.directory, completeName), nil, 0o600); err != nil {
		return fmt.Errorf("recording that the journal is complete: %w", err)
	}
	return j.syncDirectory()
}

// Get returns the value of an id, in its newest usable generation, or an error that says why
// there is none.
func (j *Journal[T]) Get(id string) (v T, err error) {
	var refused []error
	for _, name := range j.generations(id) {
		if v, err = j.read(id, name); err == nil {
			return v, nil
		}
		refused = append(refused, err)
	}
	var none T
	return none, errors.Join(refused...)
}

// Put stores a value durably and replaces the one with the same id. The error names the id.
func (j *Journal[T]) Put(v T) error { return j.Change([]T{v}, nil) }

// Change stores values and then removes ids, durably and in this order, so that a failure
// loses nothing. On an error the change may be partial. Removing an absent id is no error.
func (j *Journal[T]) Change(put []T, remove []string) error {
	if len(put)+len(remove) == 0 {
		return nil
	}
	if err := j.makeDirectory(); err != nil {
		return err
	}
	for _, v := range put {
		if err := j.write(v); err != nil {
			return fmt.Errorf("recording %s: %w", j.kind.ID(v), err)
		}
	}
	for _, id := range remove {
		for _, name := range slices.Backward(j.generations(id)) { // the newest last, so that it is never the one missing
			if err := os.Remove(filepath.Join(j.directory, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("removing %s: %w", id, err)
			}
		}
	}
	return j.syncDirectory()
}

func (j *Journal[T]) write(v T) error {
	data, err := j.kind.Encode(v)
	if err != nil {
		return err
	}
	current := filepath.Join(j.directory, j.kind.ID(v)+fileSuffix)
	if !j.kind.replacesPrevious(v) {
		return j.store(data, current, j.kind.KeepPrevious)
	}
	if err := j.store(data, current+previousSuffix, false); err != nil { // first: once the value is current, nothing older is left
		return err
	}
	return j.store(data, current, false)
}

// store writes one file, and with keep makes the one before it the previous generation.
func (j *Journal[T]) store(data []byte, current string, keep bool) (err error) {
	file, err := os.CreateTemp(j.directory, unfinishedName)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	if _, err = file.Write(data); err != nil {
		return errors.Join(err, file.Close())
	}
	if err = j.sync(file); err != nil {
		return errors.Join(err, file.Close())
	}
	if err = file.Close(); err != nil {
		return err
	}
	if keep {
		if err = keepPrevious(current, file.Name()); err != nil {
			return err
		}
	}
	return os.Rename(file.Name(), current)
}

// keepPrevious makes the current file the previous one as well, by a rename, so that there is
// a previous one at every moment.
func keepPrevious(current, unfinished string) error {
	link := unfinished + previousSuffix
	if err := os.Link(current, link); errors.Is(err, os.ErrNotExist) {
		return nil // the first generation
	} else if err != nil {
		return fmt.Errorf("keeping the previous generation: %w", err)
	}
	if err := os.Rename(link, current+previousSuffix); err != nil {
		return errors.Join(fmt.Errorf("keeping the previous generation: %w", err), os.Remove(link))
	}
	// Renaming one link of a file over another does nothing: after a crash right here, the
	// previous generation already is the current one.
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (j *Journal[T]) syncDirectory() error {
	directory, err := os.Open(j.directory)
	if err != nil {
		return err
	}
	if err := j.sync(directory); err != nil {
		return errors.Join(fmt.Errorf("syncing the journal: %w", err), directory.Close())
	}
	return directory.Close()
}
