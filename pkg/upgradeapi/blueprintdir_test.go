package upgradeapi

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
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

// written is a file that is written while it is read.
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

func TestTheExamplesAreBlueprints(t *testing.T) {
	d := newTestServer(t)
	d.create("enflame-gcu-resource")
	for _, name := range []string{"gcu-resource.json", "gcu-resource.yaml", "gcu-resource-driver.json"} {
		raw, err := os.ReadFile("../../examples/" + name)
		d.must(err)
		d.file(name, string(raw))
		d.succeeds(http.MethodPut, "/gum/v1/gr/enflame-gcu-resource", fmt.Sprintf(`{"file": %q}`, name))
	}
}

func TestContractBlueprintNames(t *testing.T) {
	d := newTestServer(t)
	d.create("safe")
	outside := filepath.Join(t.TempDir(), "outside.json")
	d.must(os.WriteFile(outside, []byte(blueprint("safe", "6.6.6")), 0o644))
	d.must(os.WriteFile(filepath.Join(filepath.Dir(d.blueprints), "above.json"), []byte(blueprint("safe", "6.6.6")), 0o644))
	path := func(name string) string { return filepath.Join(d.blueprints, name) }
	d.must(os.Mkdir(path("folder"), 0o755))
	d.must(os.WriteFile(path("folder/inner.json"), []byte(blueprint("safe", "6.6.6")), 0o644))
	d.must(os.Symlink(outside, path("link.json")))
	d.must(os.Symlink("../above.json", path("up.json")))
	d.must(os.Symlink("/dev/zero", path("zero")))
	d.must(os.Symlink("loop", path("loop")))
	d.must(os.Symlink("folder", path("linked")))
	d.must(syscall.Mkfifo(path("pipe"), 0o644))
	listener, err := net.Listen("unix", path("socket"))
	d.must(err)
	defer listener.Close()
	if os.Getuid() == 0 { // creating a device needs root; zero above is a device too
		d.must(syscall.Mknod(path("device"), syscall.S_IFCHR|0o644, 1<<8|5))
	}

	t.Run("contract 80: file is a plain name", func(t *testing.T) {
		for _, name := range []string{"../above.json", "./gr.json", "folder/inner.json", outside, "..", ".", "/", ".hidden", "a\x00b", `folder\inner.json`, "gr.json ", "%2e%2e", "~root",
			strings.Repeat("a", 254)} {
			d.fails(http.MethodPut, "/gum/v1/gr/safe", fmt.Sprintf(`{"file": %s}`, quoted(name)), http.StatusBadRequest, "")
		}
	})
	t.Run("contract 80: no link leads out of the directory, and only a regular file is read", func(t *testing.T) {
		for _, name := range []string{"link.json", "up.json", "zero", "loop", "folder", "linked", "pipe", "socket", "device"} {
			if name == "device" && os.Getuid() != 0 {
				continue
			}
			d.fails(http.MethodPut, "/gum/v1/gr/safe", fmt.Sprintf(`{"file": %q}`, name), http.StatusBadRequest, "blueprint "+name)
		}
	})
	if now := d.gr("safe"); now.Spec.Driver.Version != "1.0.0" {
		t.Fatalf("it was upgraded to %s", now.Spec.Driver.Version)
	}
	t.Run("contract 80: a link within the directory is followed, as kubelet makes them of a ConfigMap", func(t *testing.T) {
		d.must(os.Mkdir(path("..2026"), 0o755))
		d.must(os.WriteFile(path("..2026/gr.json"), []byte(blueprint("safe", "2")), 0o644))
		d.must(os.Symlink("..2026", path("..data")))
		d.must(os.Symlink("..data/gr.json", path("gr.json")))
		d.succeeds(http.MethodPut, "/gum/v1/gr/safe", `{"file": "gr.json"}`)
	})
}

// quoted returns a JSON string.
func quoted(text string) string {
	return strings.ReplaceAll(fmt.Sprintf("%q", text), `\x00`, `\u0000`)
}
