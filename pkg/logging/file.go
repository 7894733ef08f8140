package logging

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gopkg.in/natefinch/lumberjack.v2"
)

// rotation limits the size of a file, and the number and age of old ones. The defaults take
// about 150 MB of the host: such text compresses to a tenth.
type rotation struct {
	megabytes int // of the current file
	backups   int // compressed old files
	days      int // maximum age of old files
}

var defaultRotation = rotation{megabytes: 100, backups: 5, days: 30}

// file is a rotating log file that never fails, because the other output gets every line too.
// It does not buffer, so nothing is lost when the process ends. It is not safe for concurrent
// use.
type file struct {
	out     io.Writer
	warn    func(error)
	failing bool
}

// openFile returns the rotating file at a path, opened for appending; it and its directory
// are created if absent. warn is called with the cause when writing starts to fail: now, or
// at any later line.
func openFile(path string, r rotation, warn func(error)) *file {
	f := &file{warn: warn, out: &lumberjack.Logger{
		Filename: path, MaxSize: r.megabytes, MaxBackups: r.backups, MaxAge: r.days, LocalTime: true, Compress: true,
	}}
	f.note(create(path))
	return f
}

// create creates the file readable for all (lumberjack alone would make it readable for its
// owner only), and reports an unwritable directory at once.
func create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // G301: as its files
		return fmt.Errorf("making the log directory: %w", err)
	}
	created, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // G302: readable for all is what create is for
	if err != nil {
		return fmt.Errorf("opening the log file: %w", err)
	}
	return created.Close()
}

// Write implements io.Writer. Its error is always nil.
func (f *file) Write(line []byte) (int, error) {
	_, err := f.out.Write(line)
	f.note(err)
	return len(line), nil
}

// note warns of the first of consecutive failures.
func (f *file) note(err error) {
	if err != nil && !f.failing {
		f.warn(err)
	}
	f.failing = err != nil
}
