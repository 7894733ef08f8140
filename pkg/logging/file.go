package logging

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gopkg.in/natefinch/lumberjack.v2"
)

// rotation says when a new file is begun and how long old ones are kept. At the
// defaults they take some 150 MB of the host: text like this shrinks to a tenth.
type rotation struct {
	megabytes int // of the file that is written
	backups   int // compressed files beside it
	days      int // age of the oldest one
}

var defaultRotation = rotation{megabytes: 100, backups: 5, days: 30}

// file is a rotating log file that never fails: what cannot be written is on
// the other output anyway. It holds no lines back, so nothing is lost when the
// process ends. It is not safe for concurrent use.
type file struct {
	out     io.Writer
	warn    func(error)
	failing bool
}

// openFile returns the rotating file at a path, to which lines are appended; it
// and its directory are made when they are absent. warn is called with the
// reason when writing stops to work: now, or at any later line.
func openFile(path string, r rotation, warn func(error)) *file {
	f := &file{warn: warn, out: &lumberjack.Logger{
		Filename: path, MaxSize: r.megabytes, MaxBackups: r.backups, MaxAge: r.days, LocalTime: true, Compress: true,
	}}
	f.note(create(path))
	return f
}

// create makes the file, so that everybody may read it (lumberjack alone would
// make it readable for its owner only), and so that a directory that is not
// writable is told at once.
func create(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the log directory: %w", err)
	}
	created, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
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

// note warns of the first of several failures in a row.
func (f *file) note(err error) {
	if err != nil && !f.failing {
		f.warn(err)
	}
	f.failing = err != nil
}
