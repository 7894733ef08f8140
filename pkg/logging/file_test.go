package logging

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestContract55(t *testing.T) {
	t.Run("contract 55: the file and its directory are made, for everybody to read", func(t *testing.T) {
		defer syscall.Umask(syscall.Umask(0o022)) // a container's umask
		path := filepath.Join(t.TempDir(), "topscloud", "gcu-operator", "gcu-operator.log")
		New(io.Discard, Options{Format: JSON, File: path}).Info("Hello", "node", "a")
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o444 != 0o444 {
			t.Errorf("the file has mode %s, not everybody may read it", info.Mode())
		}
		want := regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d INFO logging/file_test\.go:\d+ Hello node=a\n$`)
		if got := textOf(t, path); !want.MatchString(got) {
			t.Errorf("the file holds %q", got)
		}
	})
	t.Run("contract 55: each line is in the file before the call returns, on standard error too, and says who wrote it", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "gcu-operator.log")
		var stderr bytes.Buffer
		log := New(&stderr, Options{Format: JSON, File: path, Verbosity: 1})
		for _, text := range []string{"One", "Two"} {
			log.V(1).Info(text)
			fields := fieldsOf(t, stderr.String())
			if _, has := fields["caller"]; has || fields["msg"] != text {
				t.Errorf("standard error says %v", fields)
			}
			stderr.Reset()
			if lines := linesOf(t, path); !strings.HasSuffix(lines[len(lines)-1], text) {
				t.Errorf("the last of %q is not %s", lines, text)
			}
		}
		log.V(2).Info("Three")
		if got := len(linesOf(t, path)); got != 2 {
			t.Errorf("%d lines, want 2: the verbosity holds for the file too", got)
		}
	})
	t.Run("contract 55: a new process appends", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "gcu-operator.log")
		for _, text := range []string{"Before the restart", "After the restart"} {
			New(io.Discard, Options{Format: JSON, File: path}).Info(text)
		}
		lines := linesOf(t, path)
		if len(lines) != 2 || !strings.HasSuffix(lines[0], "Before the restart") || !strings.HasSuffix(lines[1], "After the restart") {
			t.Errorf("the file holds %q", lines)
		}
	})
	t.Run("contract 55: a full file is put aside, compressed, and no line is lost", rotates)
	t.Run("contract 55: a directory that cannot be written is one warning", func(t *testing.T) {
		occupied := filepath.Join(t.TempDir(), "gcu-operator")
		if err := os.WriteFile(occupied, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		log := New(&stderr, Options{Format: JSON, File: filepath.Join(occupied, "gcu-operator.log")})
		log.Info("One")
		log.Info("Two")
		var got []string
		for line := range strings.Lines(stderr.String()) {
			fields := fieldsOf(t, line)
			got = append(got, fmt.Sprint(fields["level"], ": ", fields["msg"]))
		}
		want := []string{"warn: Cannot write the log file, continuing without it", "info: One", "info: Two"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("standard error (-want +got):\n%s", diff)
		}
		if !strings.Contains(stderr.String(), occupied+": not a directory") {
			t.Errorf("the warning does not say why: %s", stderr.String())
		}
		// Writing works again without a restart of the program.
		if err := os.Remove(occupied); err != nil {
			t.Fatal(err)
		}
		log.Info("Three")
		if lines := linesOf(t, filepath.Join(occupied, "gcu-operator.log")); len(lines) != 1 || !strings.HasSuffix(lines[0], "Three") {
			t.Errorf("the file holds %q", lines)
		}
	})
}

// rotates writes two and a half files of the smallest size.
func rotates(t *testing.T) {
	dir := t.TempDir()
	log := newLogger(io.Discard, Options{Format: JSON, File: filepath.Join(dir, "gcu-operator.log")}, rotation{megabytes: 1, backups: 5, days: 1})
	const lines = 2500
	for i := range lines {
		log.Info("Filling", "line", i, "with", strings.Repeat("x", 1000))
	}
	var texts string
	eventually(t, func() string { // lumberjack compresses in the background
		files, err := filepath.Glob(filepath.Join(dir, "gcu-operator-*.log.gz"))
		if plain, _ := filepath.Glob(filepath.Join(dir, "gcu-operator-*.log")); err != nil || len(files) != 2 || len(plain) > 0 {
			return fmt.Sprintf("compressed %q and not %q (%v), want two and none", files, plain, err)
		}
		texts = textOf(t, filepath.Join(dir, "gcu-operator.log"))
		if len(texts) > 1<<20 {
			t.Errorf("the file holds %d bytes, more than 1 MiB", len(texts))
		}
		for _, file := range files {
			texts += unzipped(t, file)
		}
		return ""
	})
	for i := range lines {
		if !strings.Contains(texts, fmt.Sprintf(" line=%d ", i)) {
			t.Errorf("line %d is lost", i)
		}
	}
}

func TestFailuresOfTheFileAreReportedOncePerSeries(t *testing.T) {
	var warned []error
	f := &file{warn: func(err error) { warned = append(warned, err) }}
	full := iotest.ErrTimeout
	for _, err := range []error{nil, full, full, nil, full} {
		f.out = answers{err}
		if n, err := f.Write([]byte("line")); n != 4 || err != nil {
			t.Errorf("Write = %d, %v: the logger is not to hear of it", n, err)
		}
	}
	if len(warned) != 2 {
		t.Errorf("warned %d times of two rows of failures: %v", len(warned), warned)
	}
}

type answers struct{ err error }

func (a answers) Write(p []byte) (int, error) { return len(p), a.err }

func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func linesOf(t *testing.T, path string) []string {
	t.Helper()
	return strings.Split(strings.TrimSuffix(textOf(t, path), "\n"), "\n")
}

func unzipped(t *testing.T, path string) string {
	t.Helper()
	reader, err := gzip.NewReader(strings.NewReader(textOf(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// eventually polls; check returns what is still missing.
func eventually(t *testing.T, check func() string) {
	t.Helper()
	missing := check()
	for deadline := time.Now().Add(10 * time.Second); missing != "" && time.Now().Before(deadline); missing = check() {
		time.Sleep(10 * time.Millisecond)
	}
	if missing != "" {
		t.Fatal(missing)
	}
}
