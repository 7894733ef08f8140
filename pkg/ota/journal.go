package ota

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-logr/logr"
)

const (
	requestSuffix  = ".json"
	corruptSuffix  = ".corrupt"
	unfinishedName = ".new-"
	// maxFileBytes is far above what an entry needs: a larger file is not ours.
	maxFileBytes = 64 << 10
)

// journal keeps entries on disk, one file per request, so that one torn file
// costs one request. A file is complete or absent: it is written under another
// name, synced and renamed, and then the directory is synced.
type journal struct {
	directory string
}

// record is the content of one file.
type record struct {
	// Checksum is the SHA-256 of Entry as it stands in the file, in hex.
	Checksum string          `json:"checksum"`
	Entry    json.RawMessage `json:"entry"`
}

// openJournal returns the journal under stateDirectory, which is made when it
// does not exist, and the entries in it, oldest first. incomplete is true when
// entries may be missing: there was no journal, or a file had to be set aside.
func openJournal(stateDirectory string, log logr.Logger) (j journal, entries []entry, incomplete bool, err error) {
	j = journal{directory: filepath.Join(stateDirectory, "requests")}
	if _, err := os.Stat(j.directory); errors.Is(err, os.ErrNotExist) {
		incomplete = true
	}
	if err := os.MkdirAll(j.directory, 0o700); err != nil {
		return journal{}, nil, false, fmt.Errorf("making the state directory: %w", err)
	}
	if err := j.checkWritable(); err != nil {
		return journal{}, nil, false, err
	}
	files, err := os.ReadDir(j.directory)
	if err != nil {
		return journal{}, nil, false, fmt.Errorf("listing the journal: %w", err)
	}
	for _, file := range files {
		if strings.HasPrefix(file.Name(), unfinishedName) {
			if err := os.Remove(filepath.Join(j.directory, file.Name())); err != nil {
				return journal{}, nil, false, fmt.Errorf("removing an unfinished file: %w", err)
			}
			continue
		}
		if !strings.HasSuffix(file.Name(), requestSuffix) {
			continue
		}
		e, err := j.read(file.Name())
		if err != nil {
			incomplete = true
			if err := j.setAside(file.Name(), err, log); err != nil {
				return journal{}, nil, false, err
			}
			continue
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Sequence, b.Sequence), cmp.Compare(a.Request.ID, b.Request.ID))
	})
	return j, entries, incomplete, nil
}

// checkWritable finds out at start, not at the first request, that nothing can
// be recorded here.
func (j journal) checkWritable() error {
	probe, err := os.CreateTemp(j.directory, unfinishedName)
	if err != nil {
		return fmt.Errorf("writing to the state directory: %w", err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

func (j journal) read(name string) (entry, error) {
	file, err := os.Open(filepath.Join(j.directory, name))
	if err != nil {
		return entry{}, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err = errors.Join(err, file.Close()); err != nil {
		return entry{}, err
	}
	e, err := decodeEntry(data)
	if err != nil {
		return entry{}, err
	}
	if e.Request.ID+requestSuffix != name {
		return entry{}, fmt.Errorf("it holds request %q", e.Request.ID)
	}
	return e, nil
}

// setAside renames a file that cannot be used, so that a person can look at it.
func (j journal) setAside(name string, cause error, log logr.Logger) error {
	log.Info("Setting aside a journal file that cannot be used", "file", filepath.Join(j.directory, name+corruptSuffix), "cause", cause.Error())
	if err := os.Rename(filepath.Join(j.directory, name), filepath.Join(j.directory, name+corruptSuffix)); err != nil {
		return fmt.Errorf("setting aside journal file %s: %w", name, err)
	}
	return nil
}

// change makes the journal go from one list of entries to another, durably. It
// writes before it removes, so that a failure loses nothing. On an error the
// journal may hold some of the new entries.
func (j journal) change(from, to []entry) error {
	write, remove := changes(from, to)
	for _, e := range write {
		if err := j.write(e); err != nil {
			return fmt.Errorf("recording request %s: %w", e.Request.ID, err)
		}
	}
	for _, id := range remove {
		if err := os.Remove(filepath.Join(j.directory, id+requestSuffix)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing request %s: %w", id, err)
		}
	}
	if len(write)+len(remove) == 0 {
		return nil
	}
	return j.syncDirectory()
}

func (j journal) write(e entry) (err error) {
	data, err := encodeEntry(e)
	if err != nil {
		return err
	}
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
	if err = file.Sync(); err != nil {
		return errors.Join(err, file.Close())
	}
	if err = file.Close(); err != nil {
		return err
	}
	return os.Rename(file.Name(), filepath.Join(j.directory, e.Request.ID+requestSuffix))
}

func (j journal) syncDirectory() error {
	directory, err := os.Open(j.directory)
	if err != nil {
		return err
	}
	if err := directory.Sync(); err != nil {
		return errors.Join(fmt.Errorf("syncing the journal: %w", err), directory.Close())
	}
	return directory.Close()
}

// encodeEntry returns the content of a journal file.
func encodeEntry(e entry) ([]byte, error) {
	body, err := json.Marshal(e)
	if err != nil {
		return nil, fmt.Errorf("encoding request %s: %w", e.Request.ID, err)
	}
	data, err := json.Marshal(record{Checksum: checksum(body), Entry: body})
	if err != nil {
		return nil, fmt.Errorf("encoding request %s: %w", e.Request.ID, err)
	}
	return append(data, '\n'), nil
}

// decodeEntry reads the content of a journal file. It returns an error for
// anything that encodeEntry would not have written.
func decodeEntry(data []byte) (entry, error) {
	if len(data) > maxFileBytes {
		return entry{}, fmt.Errorf("it is larger than %d bytes", maxFileBytes)
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return entry{}, fmt.Errorf("decoding it: %w", err)
	}
	if r.Checksum != checksum(r.Entry) {
		return entry{}, errors.New("its checksum does not match")
	}
	var e entry
	if err := json.Unmarshal(r.Entry, &e); err != nil {
		return entry{}, fmt.Errorf("decoding its entry: %w", err)
	}
	if !requestIDPattern.MatchString(e.Request.ID) {
		return entry{}, fmt.Errorf("%.80q is not a request id", e.Request.ID)
	}
	if again, err := encodeEntry(e); err != nil || !bytes.Equal(bytes.TrimSpace(again), bytes.TrimSpace(data)) {
		return entry{}, errors.New("it has fields or a form that this version does not write")
	}
	return e, nil
}

func checksum(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}
