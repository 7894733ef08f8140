package image

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func TestImageContainsItsFilesAndIsReproducible(t *testing.T) {
	source, output := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{"etc/one": "1", "two": "22"} {
		full := filepath.Join(source, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("two", filepath.Join(source, "link")); err != nil {
		t.Fatal(err)
	}
	spec := Spec{
		Tag:        "example/thing:v1",
		Files:      []File{{Source: source, Destination: "/"}, {Source: filepath.Join(source, "two"), Destination: "/usr/bin/thing"}},
		Entrypoint: []string{"/usr/bin/thing", "--serve"},
	}
	first, second := filepath.Join(output, "a.tar"), filepath.Join(output, "b.tar")
	if err := errors.Join(Write(first, spec), Write(second, spec)); err != nil {
		t.Fatal(err)
	}
	a, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(second)
	if err != nil || !slices.Equal(a, b) {
		t.Errorf("the same files resulted in different images (%v)", err)
	}

	tag, err := name.NewTag(spec.Tag)
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(first, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil || !slices.Equal(config.Config.Entrypoint, spec.Entrypoint) || config.OS != "linux" {
		t.Errorf("got config %+v, %v", config, err)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("got %d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for archive := tar.NewReader(content); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		got[header.Name] = string(text) + header.Linkname
	}
	for path, want := range map[string]string{"etc/one": "1", "two": "22", "link": "two", "usr/bin/thing": "22"} {
		if got[path] != want {
			t.Errorf("%s holds %q, want %q", path, got[path], want)
		}
	}
}

func TestWriteLeavesNoHalfImage(t *testing.T) {
	output := filepath.Join(t.TempDir(), "image.tar")
	err := Write(output, Spec{Tag: "example/thing:v1", Files: []File{{Source: "/nonexistent", Destination: "/x"}}})
	if _, left := os.Stat(output); err == nil || left == nil {
		t.Errorf("got %v, want an error and no file", err)
	}
	if err := Write(output, Spec{Tag: "no Tag"}); err == nil {
		t.Error("an invalid name was accepted")
	}
}

func TestParseFile(t *testing.T) {
	if got, err := ParseFile("bin/agent:/usr/bin/agent"); err != nil || got != (File{Source: "bin/agent", Destination: "/usr/bin/agent"}) {
		t.Errorf("got %+v, %v", got, err)
	}
	for _, wrong := range []string{"", "agent", ":/agent", "agent:bin"} {
		if _, err := ParseFile(wrong); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}
