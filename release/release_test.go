package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// made returns a release of v1.2.3 in folders of the test, and changes into the root of the project.
func made(t *testing.T) *release {
	t.Helper()
	t.Chdir("..")
	return &release{version: "v1.2.3", output: t.TempDir(), work: t.TempDir(), image: "registry.test/gcu-operator:v1.2.3@sha256:00",
		built: time.Date(2026, 11, 24, 1, 2, 3, 0, time.FixedZone("", 3600))}
}

// withPrograms lets texts stand for compiled programs.
func (r *release) withPrograms(t *testing.T) *release {
	t.Helper()
	for name, on := range platforms {
		for _, p := range on {
			path := r.program(name, p)
			check(t, os.MkdirAll(filepath.Dir(path), 0o700))
			check(t, os.WriteFile(path, []byte(path[len(r.work):]), 0o700))
		}
	}
	return r
}

func TestVersionsThatAreNoneAreRefusedBeforeAnythingIsDone(t *testing.T) {
	for _, version := range []string{"", "1.2.3", "v1.2", "84a1b69", "v1.2.3/../x"} {
		r := made(t)
		r.version = version
		check(t, os.WriteFile(r.file("kept"), nil, 0o600))
		if err := r.run(t.Context()); err == nil || !strings.Contains(err.Error(), "make release VERSION=v1.2.3") {
			t.Errorf("version %q: %v", version, err)
		}
		if _, err := os.Stat(r.file("kept")); err != nil {
			t.Errorf("version %q: the folder was emptied", version)
		}
	}
}

func TestTheNotesAreTheSectionOfTheVersion(t *testing.T) {
	const text = "# Changelog\n\n## [Unreleased]\n\n* new\n\n## [1.2.3] - 2026-11-24\n\n### Added\n\n* a\n\n## [1.2.2]\n\n* old\n"
	for version, want := range map[string]string{"v1.2.3": "### Added\n\n* a\n", "v1.2.2": "* old\n", "v2.0.0": "* new\n"} {
		got, err := changes(text, version)
		check(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", version, diff)
		}
	}
	if _, err := changes("# Changelog\n", "v1.2.3"); err == nil {
		t.Error("a changelog that says nothing was taken")
	}
}

func TestAnArchiveHasTheProgramAndTheLicense(t *testing.T) {
	r := made(t).withPrograms(t)
	for _, c := range []struct {
		program string
		on      platform
		want    []string
	}{
		{"node-agent", platform{"linux", "arm64"}, []string{"node-agent", "LICENSE", "NOTICE"}},
		{"kubectl-gcu", platform{"darwin", "arm64"}, []string{"kubectl-gcu", "LICENSE", "NOTICE", "kubectl_complete-gcu"}},
		{"kubectl-gcu", platform{"windows", "amd64"}, []string{"kubectl-gcu.exe", "LICENSE", "NOTICE"}},
	} {
		items, err := r.items(c.program, c.on)
		check(t, err)
		var names []string
		for _, i := range items {
			names = append(names, i.name)
		}
		if diff := cmp.Diff(c.want, names); diff != "" {
			t.Errorf("%s on %v: %s", c.program, c.on, diff)
		}
	}
}

func TestKrewGetsTheSumsOfTheArchives(t *testing.T) {
	r := made(t).withPrograms(t)
	check(t, r.archives(t.Context()))
	check(t, r.krew(t.Context()))
	manifest, err := os.ReadFile(r.file("gcu.yaml"))
	check(t, err)
	for _, p := range platforms["kubectl-gcu"] {
		ending := ".tar.gz"
		if p.os == "windows" {
			ending = ".zip"
		}
		archive := archiveName("kubectl-gcu", r.version, p) + ending
		sum, err := sumOf(r.file(archive))
		check(t, err)
		if want := "/v1.2.3/" + archive + "\n      sha256: " + sum + "\n"; !strings.Contains(string(manifest), want) {
			t.Errorf("nothing of %s in\n%s", want, manifest)
		}
	}
}

func TestTheChecksumsAreThoseOfAllFilesAndAreSigned(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	check(t, err)
	r := made(t)
	r.key = filepath.Join(r.work, "key.pem")
	check(t, os.WriteFile(r.key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	check(t, os.WriteFile(r.file("a"), []byte("a"), 0o600))
	check(t, os.WriteFile(r.file("b"), []byte("b"), 0o600))
	check(t, r.checksums(t.Context()))

	sums, err := os.ReadFile(r.file(checksumFile))
	check(t, err)
	const want = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb  a\n3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  b\n"
	if diff := cmp.Diff(want, string(sums)); diff != "" {
		t.Error(diff)
	}
	encoded, err := os.ReadFile(r.file(signatureFile))
	check(t, err)
	signature, err := base64.StdEncoding.DecodeString(string(encoded))
	check(t, err)
	sum := sha256.Sum256(sums)
	if !ecdsa.VerifyASN1(&private.PublicKey, sum[:], signature) {
		t.Error("the signature is not one of the checksums")
	}
	runs(t, r.output, &private.PublicKey)
	check(t, os.WriteFile(r.key, []byte("no key"), 0o600))
	if err := r.checksums(t.Context()); err == nil || !strings.Contains(err.Error(), "not in PEM") {
		t.Errorf("a file that is no key: %v", err)
	}
}

func TestThePluginOfAReleaseListsItsImage(t *testing.T) {
	r := made(t)
	plugin := filepath.Join(r.work, "kubectl-gcu")
	_, err := call(t.Context(), nil, "go", "build", r.flags(), "-o", plugin, "./cmd/kubectl-gcu")
	check(t, err)
	out, err := call(t.Context(), nil, plugin, "images", "-f", "examples/gcu-resource.json")
	check(t, err)
	if !strings.Contains(string(out), "/gcu-operator:v1.2.3\n") {
		t.Errorf("no image of v1.2.3 in\n%s", out)
	}
}

// runs runs what docs/install.md says to verify a release, in its folder.
func runs(t *testing.T, folder string, key *ecdsa.PublicKey) {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Log("openssl is missing: the commands of docs/install.md are not run")
		return
	}
	der, err := x509.MarshalPKIXPublicKey(key)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(folder, "cosign.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600))
	text, err := os.ReadFile("docs/install.md")
	check(t, err)
	_, commands, _ := strings.Cut(string(text), "```sh\nsha256sum")
	commands, _, found := strings.Cut(commands, "```")
	check(t, os.Remove(filepath.Join(folder, "b"))) // not downloaded
	shell := exec.CommandContext(t.Context(), "bash", "-ec", "sha256sum"+commands)
	shell.Dir = folder
	if output, err := shell.CombinedOutput(); err != nil || !found || !strings.Contains(string(output), "a: OK\nVerified OK") {
		t.Errorf("%v\n%s", err, output)
	}
}

func TestASecondReleaseOfACommitIsTheSame(t *testing.T) {
	var sums []string
	for range 2 {
		r := made(t).withPrograms(t)
		check(t, r.archives(t.Context()))
		check(t, r.krew(t.Context()))
		check(t, r.notes(t.Context()))
		check(t, r.checksums(t.Context()))
		text, err := os.ReadFile(r.file(checksumFile))
		check(t, err)
		sums = append(sums, string(text))
		t.Chdir("release")
	}
	if diff := cmp.Diff(sums[0], sums[1]); diff != "" {
		t.Error(diff)
	}
}

func TestInstallNamesTheImageByItsDigest(t *testing.T) {
	r := made(t)
	digest := "sha256:" + strings.Repeat("ab", 32)
	r.image = "artifact.enflame.cn/enflame_docker_images/enflame/gcu-operator:v1.2.3@" + digest
	check(t, r.manifests(t.Context()))
	text, err := os.ReadFile(r.file("install.yaml"))
	check(t, err)
	if got := strings.Count(string(text), "image: "+r.image+"\n"); got != 3 {
		t.Errorf("%d containers run %s, want the manager, its init container and the node agent", got, r.image)
	}
	if strings.Contains(string(text), "gcu-operator:latest") {
		t.Error("an image is still :latest")
	}
	r.image = "registry.test/gcu-operator:v1.2.3"
	if err := r.manifests(t.Context()); err == nil {
		t.Error("an image without a digest was taken")
	}
}

// withSyft lets a script that says what it is asked for stand for syft, with another name in each run.
func (r *release) withSyft(t *testing.T) *release {
	t.Helper()
	r.syft = filepath.Join(t.TempDir(), "syft")
	list := `{"documentNamespace": "https://anchore.com/'$$'", "creationInfo": {"created": "now", "creators": ["Tool: syft"]}, "packages": [{"name": "'"$1 ${2##*/} $3 $4 $5 $6"'"}, {}]}`
	check(t, os.WriteFile(r.syft, []byte("#!/bin/sh\necho '"+list+"'\n"), 0o700))
	return r
}

func TestTheListsAreThoseOfTheReleaseNotOfTheRun(t *testing.T) {
	r := made(t).withPrograms(t).withSyft(t)
	check(t, r.contents(t.Context()))
	for name, on := range platforms {
		for _, p := range on {
			title := archiveName(name, r.version, p)
			got, err := os.ReadFile(r.file(title + ".spdx.json"))
			check(t, err)
			want := map[string]any{"documentNamespace": "https://github.com/topsops/gcu-operator/spdx/" + title,
				"creationInfo": map[string]any{"created": "2026-11-24T00:02:03Z", "creators": []any{"Tool: syft"}},
				"packages":     []any{map[string]any{"name": "scan " + filepath.Base(r.program(name, p)) + " --quiet --output=spdx-json --source-name=" + title + " --source-version=v1.2.3"}, map[string]any{}}}
			var have map[string]any
			check(t, json.Unmarshal(got, &have))
			if diff := cmp.Diff(want, have); diff != "" {
				t.Error(diff)
			}
		}
	}
	check(t, os.WriteFile(r.syft, []byte("#!/bin/sh\necho '{\"creationInfo\": {}, \"packages\": [{}]}'\n"), 0o700))
	if err := r.contents(t.Context()); err == nil || !strings.Contains(err.Error(), "has no modules") {
		t.Errorf("a list without modules: %v", err)
	}
}

func TestTheChartHasTheVersionAndTheDigest(t *testing.T) {
	r := made(t)
	digest := "sha256:" + strings.Repeat("ab", 32)
	r.image = "registry.test/gcu-operator:v1.2.3@" + digest
	check(t, r.chart(t.Context()))
	packed, err := os.Open(r.file("gcu-operator-1.2.3.tgz"))
	check(t, err)
	defer packed.Close()
	unzipped, err := gzip.NewReader(packed)
	check(t, err)
	content := map[string]string{}
	for archive := tar.NewReader(unzipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		check(t, err)
		text, err := io.ReadAll(archive)
		check(t, err)
		content[header.Name] = string(text)
	}
	for _, want := range [][2]string{
		{"Chart.yaml", "version: 1.2.3\nappVersion: v1.2.3\n"},
		{"Chart.yaml", "topsops.enflame.com/image: " + r.image + "\n"},
		{"templates/_helpers.tpl", `index .Chart.Annotations "topsops.enflame.com/image"`},
		{"values.yaml", "digest: \"\"\n"},
		{"LICENSE", "Apache License\n"},
		{"NOTICE", "The Volcano Authors"},
	} {
		if !strings.Contains(content["gcu-operator/"+want[0]], want[1]) {
			t.Errorf("%s does not have %q:\n%s", want[0], want[1], content["gcu-operator/"+want[0]])
		}
	}
}
