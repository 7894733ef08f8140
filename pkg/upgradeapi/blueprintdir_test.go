package upgradeapi

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

func TestALargeBlueprintIsNotRead(t *testing.T) {
	folder := t.TempDir()
	large := strings.Replace(blueprint("strict", "2"), "}", strings.Repeat(" ", request.MaxBytes)+"}", 1)
	if err := os.WriteFile(filepath.Join(folder, "large.json"), []byte(large), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := readBlueprint(folder, "large.json")
	if status, says := failure(err); err == nil || status != http.StatusBadRequest || !strings.Contains(says, "larger than") {
		t.Errorf("%v", err)
	}
}

// written is a file that somebody writes while it is read.
type written struct {
	fs.File
	write func()
}

func (w *written) Read(p []byte) (int, error) {
	w.write()
	return w.File.Read(p)
}

func TestABlueprintThatIsBeingWrittenIsNotTaken(t *testing.T) {
	half := "apiVersion: topsops.enflame.com/v1\nkind: GcuResource\nmetadata: {name: strict}\nspec: {driver: {}}\n"
	for name, write := range map[string]func(path string) error{
		"nobody writes it": func(string) error { return nil },
		"it grows": func(path string) error {
			file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = file.WriteString("status: {}\n")
			return errors.Join(err, file.Close())
		},
		"it is emptied": func(path string) error { return os.Truncate(path, 0) },
		"it is overwritten": func(path string) error {
			return errors.Join(os.WriteFile(path, []byte(strings.Replace(half, "driver", "gfd...", 1)), 0o600), os.Chtimes(path, time.Time{}, time.Unix(1, 0)))
		},
	} {
		path := filepath.Join(t.TempDir(), "gr.yaml")
		if err := os.WriteFile(path, []byte(half), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		once := sync.OnceFunc(func() {
			if err := write(path); err != nil {
				t.Error(err)
			}
		})
		data, err := readRegular(&written{File: file, write: once}, "gr.yaml")
		if name == "nobody writes it" {
			if err != nil || string(data) != half {
				t.Errorf("%s: %v %q", name, err, data)
			}
			continue
		}
		if status, says := failure(err); err == nil || status != http.StatusConflict || !strings.Contains(says, "blueprint gr.yaml is being written") {
			t.Errorf("%s: %v %q", name, err, data)
		}
	}
}
