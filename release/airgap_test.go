package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// airgap runs a script with a docker that notes its calls, has no image "lost", and makes the files that it is to save.
func airgap(t *testing.T, list, script string, args ...string) (said, calls string, ok bool) {
	t.Helper()
	dir := t.TempDir()
	docker := filepath.Join(dir, "docker")
	check(t, os.WriteFile(docker, []byte("#!/bin/sh\necho \"$@\" >>"+dir+"/calls\ncase \"$*\" in *lost*) exit 1;; esac\n[ $1 != save ] || : >$3\n"), 0o755))
	check(t, os.WriteFile(filepath.Join(dir, "list of images"), []byte(list), 0o644))
	path, err := filepath.Abs(filepath.Join("..", "config", "airgap", script))
	check(t, err)
	command := exec.CommandContext(t.Context(), path, args...)
	command.Dir, command.Env = dir, append(os.Environ(), "DOCKER="+docker)
	out, err := command.CombinedOutput()
	noted, _ := os.ReadFile(filepath.Join(dir, "calls"))
	if _, statErr := os.Stat(filepath.Join(dir, "an archive")); err == nil && len(args) == 2 && statErr != nil {
		t.Error(statErr)
	}
	return string(out), string(noted), err == nil
}

func TestTheImagesOfAListAreSavedAndLoaded(t *testing.T) {
	const list = "a.example/x/one:v1\n\nb.example/two:v2"
	for _, tt := range []struct {
		list, script string
		args         []string
		ok           bool
		calls, said  string
	}{
		{list, "save-images.sh", []string{"list of images", "an archive"}, true,
			"pull --quiet a.example/x/one:v1\npull --quiet b.example/two:v2\nsave -o an archive.part a.example/x/one:v1 b.example/two:v2\n", "an archive has 2 images"},
		{list + "@sha256:0123\n", "save-images.sh", []string{"list of images", "an archive"}, false, "", "b.example/two:v2@sha256:0123"},
		{"a.example/lost:v1\n" + list, "save-images.sh", []string{"list of images", "an archive"}, false, "pull --quiet a.example/lost:v1\n", "[1/3] a.example/lost:v1"},
		{"", "save-images.sh", []string{"list of images", "an archive"}, false, "", "no image in list of images"},
		{list, "save-images.sh", nil, false, "", "usage: save-images.sh LIST ARCHIVE"},
		{list, "load-images.sh", []string{"list of images", "an archive", "mirror.example.com"}, true,
			"load --quiet -i an archive\ntag a.example/x/one:v1 mirror.example.com/x/one:v1\npush --quiet mirror.example.com/x/one:v1\n" +
				"tag b.example/two:v2 mirror.example.com/two:v2\npush --quiet mirror.example.com/two:v2\n", "mirror.example.com has 2 images"},
		{"a.example/lost:v1\n" + list, "load-images.sh", []string{"list of images", "an archive", "mirror.example.com"}, false,
			"load --quiet -i an archive\ntag a.example/lost:v1 mirror.example.com/lost:v1\n", "[1/3] mirror.example.com/lost:v1"},
		{list + "@sha256:0123\n", "load-images.sh", []string{"list of images", "an archive", "mirror.example.com"}, false, "", "b.example/two:v2@sha256:0123"},
		{list, "load-images.sh", []string{"list of images"}, false, "", "usage: load-images.sh LIST ARCHIVE REGISTRY"},
	} {
		said, calls, ok := airgap(t, tt.list, tt.script, tt.args...)
		if ok != tt.ok || calls != tt.calls || !strings.Contains(said, tt.said) {
			t.Errorf("%s of %q: ok %t, it calls\n%sand says\n%s\nwant %t, calls\n%sand %q", tt.script, tt.list, ok, calls, said, tt.ok, tt.calls, tt.said)
		}
	}
}
