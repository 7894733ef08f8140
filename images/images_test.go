package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// programs makes files that stand for built programs.
func programs(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		check(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o700))
	}
	return dir
}

// root is that of the project.
const root = ".."

// Contract 89 and 90.
func TestTheImageOfTheOperatorHasThePrograms(t *testing.T) {
	dir := programs(t, "manager", "node-agent")
	files, err := operatorFiles(dir, root)
	check(t, err)
	path := filepath.Join(t.TempDir(), "operator.tar")
	check(t, write(path, "arm64", files, []image{operatorImage(operatorTag, "v1.2.3")}))

	tag, err := name.NewTag(operatorTag)
	check(t, err)
	packed, err := tarball.ImageFromPath(path, &tag)
	check(t, err)
	config, err := packed.ConfigFile()
	check(t, err)
	if config.Architecture != "arm64" || config.Config.User != "65532:65532" || !config.Created.IsZero() {
		t.Errorf("the image is for %s, run by %q and was made at %s", config.Architecture, config.Config.User, config.Created)
	}
	layers, err := packed.Layers()
	check(t, err)
	content, err := layers[0].Uncompressed()
	check(t, err)
	modes := map[string]int64{}
	archive := tar.NewReader(content)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		check(t, err)
		if !header.ModTime.IsZero() && header.ModTime.Unix() != 0 || header.Uid != 0 {
			t.Errorf("%s is of user %d and of %s", header.Name, header.Uid, header.ModTime)
		}
		modes[header.Name] = header.Mode
	}
	// Contract statements 11, 89.
	want := map[string]int64{"usr/bin/manager": 0o755, "usr/bin/node-agent": 0o755, "bin/": 0, "opt/gcu-operator/driver.yaml": 0o644, "opt/gcu-operator/nfd.yaml": 0o644,
		"licenses/LICENSE": 0o644, "licenses/NOTICE": 0o644}
	got := map[string]int64{}
	for name := range want {
		got[name] = modes[name]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheSameFilesMakeTheSameImage(t *testing.T) {
	var made [][]byte
	for range 2 {
		dir := programs(t, "manager", "node-agent")
		files, err := operatorFiles(dir, root)
		check(t, err)
		path := filepath.Join(t.TempDir(), "operator.tar")
		check(t, write(path, "arm64", files, []image{operatorImage(operatorTag, "v1")}))
		data, err := os.ReadFile(path)
		check(t, err)
		made = append(made, data)
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Error("two archives of the same files differ")
	}
}

func TestAReleaseHasOneImageForAllArchitectures(t *testing.T) {
	t.Chdir("..") // the root of the project
	programs, digests := t.TempDir(), map[string]bool{}
	for _, architecture := range architectures {
		check(t, os.Mkdir(filepath.Join(programs, architecture), 0o700))
		for _, program := range []string{"manager", "node-agent"} {
			check(t, os.WriteFile(filepath.Join(programs, architecture, program), []byte(program+architecture), 0o700))
		}
	}
	for range 2 {
		output := t.TempDir()
		check(t, writeRelease(programs, output, "v1.2.3"))
		archive, err := os.ReadFile(filepath.Join(output, "gcu-operator_v1.2.3_image_oci.tar"))
		check(t, err)
		digests[fmt.Sprintf("%x", sha256.Sum256(archive))] = true
		for _, architecture := range architectures {
			one, err := tarball.ImageFromPath(filepath.Join(output, "gcu-operator_v1.2.3_image_linux_"+architecture+".tar"), nil)
			check(t, err)
			if config, err := one.ConfigFile(); err != nil || config.Architecture != architecture {
				t.Errorf("the archive for %s has an image for %v, %v", architecture, config, err)
			}
		}
		check(t, exec.Command("tar", "-xf", filepath.Join(output, "gcu-operator_v1.2.3_image_oci.tar"), "-C", output).Run())
		layout, err := layout.ImageIndexFromPath(output)
		check(t, err)
		top, err := layout.IndexManifest()
		check(t, err)
		if len(top.Manifests) != 1 || top.Manifests[0].Annotations["io.containerd.image.name"] != operatorRepository+":v1.2.3" {
			t.Fatalf("the layout has %v", top.Manifests)
		}
		index, err := layout.ImageIndex(top.Manifests[0].Digest)
		check(t, err)
		check(t, validate.Index(index))
	}
	if len(digests) != 1 {
		t.Error("two releases of the same files differ")
	}
}

func TestTheRootOfTheDockerfileHasTheSameFiles(t *testing.T) {
	dir := programs(t, "manager", "node-agent")
	files, err := operatorFiles(dir, root)
	check(t, err)
	unpacked := t.TempDir()
	check(t, files.unpack(unpacked))
	for _, f := range files {
		info, err := os.Lstat(filepath.Join(unpacked, f.path))
		check(t, err)
		if f.link == "" && info.Mode() != f.mode {
			t.Errorf("%s has mode %s", f.path, info.Mode())
		}
	}
}

func TestDockerfileMatchesTheArchive(t *testing.T) {
	text, err := os.ReadFile("Dockerfile")
	check(t, err)
	said := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(strings.TrimSpace(line), " "); found {
			said[key] = value // the last stage wins
		}
	}
	config := operatorImage(operatorTag, "$VERSION").config
	got := map[string]string{"USER": said["USER"], "ENV": said["ENV"], "ENTRYPOINT": said["ENTRYPOINT"], "LABEL": said["LABEL"]}
	want := map[string]string{"USER": config.User, "ENV": config.Env[0], "ENTRYPOINT": `["` + config.Entrypoint[0] + `"]`,
		"LABEL": "org.opencontainers.image.title=" + config.Labels["org.opencontainers.image.title"] + " org.opencontainers.image.version=$VERSION"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheManifestsNameTheImageThatIsMade(t *testing.T) {
	for _, file := range []string{"../config/manager/deployment.yaml", "../config/node-agent/daemonset.yaml"} {
		text, err := os.ReadFile(file)
		check(t, err)
		found := regexp.MustCompile(`image: (\S+)`).FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s names no image", file)
		}
		for _, match := range found {
			if match[1] != operatorTag {
				t.Errorf("%s names %s, made is %s", file, match[1], operatorTag)
			}
		}
	}
}

func TestTheExamplesNameImagesThatAreMade(t *testing.T) {
	made := map[string]bool{}
	for _, i := range standinImages() {
		made[i.tag] = true
	}
	for _, file := range []string{"../examples/gcu-resource.yaml", "../examples/gcu-resource-driver.json"} {
		text, err := os.ReadFile(file)
		check(t, err)
		var gr topsv1.GcuResource
		check(t, yaml.Unmarshal(text, &gr))
		fields := []*topsv1.BaseFields{gr.Spec.Driver, gr.Spec.Toolkit, gr.Spec.DevicePlugin, gr.Spec.Exporter, gr.Spec.GFD, gr.Spec.NFD.Master, gr.Spec.NFD.Worker}
		for _, f := range fields {
			if wanted := f.Repository + "/" + f.Image + ":" + f.Version; !made[wanted] {
				t.Errorf("%s names %s, which is not made", file, wanted)
			}
		}
	}
}

func TestNoTwoImagesHaveOneName(t *testing.T) {
	var tags []string
	for _, i := range standinImages() {
		if slices.Contains(tags, i.tag) {
			t.Errorf("%s is made twice", i.tag)
		}
		tags = append(tags, i.tag)
	}
}

func TestMissingProgramsAreReported(t *testing.T) {
	dir := programs(t, "manager")
	if _, err := operatorFiles(dir, root); err == nil || !strings.Contains(err.Error(), "make images") {
		t.Errorf("without a node agent: %v", err)
	}
	if _, err := operatorFiles(dir, dir); err == nil {
		t.Error("an image without the built-in manifests was made")
	}
}
