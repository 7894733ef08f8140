package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// manifests renders config/default with the image of the release, named by its digest.
func (r *release) manifests(context.Context) error {
	repository, digest, found := strings.Cut(r.image, "@")
	if !found {
		return fmt.Errorf("image %s has no digest", r.image)
	}
	repository = strings.TrimSuffix(repository, ":"+r.version)
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	folder := filepath.Join(r.work, "install")
	base, err := filepath.Rel(folder, filepath.Join(root, "config", "default"))
	if err != nil {
		return err
	}
	overlay, err := yaml.Marshal(map[string]any{
		"resources": []string{base},
		"images":    []map[string]string{{"name": repository, "newTag": r.version, "digest": digest}},
	})
	if err != nil {
		return err
	}
	disk := filesys.MakeFsOnDisk()
	if err := disk.MkdirAll(folder); err != nil {
		return err
	}
	if err := disk.WriteFile(filepath.Join(folder, "kustomization.yaml"), overlay); err != nil {
		return err
	}
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, folder)
	if err != nil {
		return err
	}
	text, err := rendered.AsYaml()
	if err != nil {
		return err
	}
	return r.write("install.yaml", text)
}

// mirroring are the scripts in config/airgap for nodes without a network.
var mirroring = []string{"save-images.sh", "load-images.sh"}

// scripts copies the scripts for nodes without a network.
func (r *release) scripts(context.Context) error {
	for _, name := range mirroring {
		text, err := os.ReadFile(filepath.Join("config", "airgap", name))
		if err != nil {
			return err
		}
		if err := r.write(name, text); err != nil {
			return err
		}
	}
	return nil
}

// none is what --nfpm is to leave the packages out.
const none = "none"

// packagers are the kinds of packages.
var packagers = []string{"deb", "rpm"}

// hasTools returns an error if a program that the release needs is missing.
func (r *release) hasTools() error {
	var missing []error
	if _, err := os.Stat(r.nfpm); err != nil && r.nfpm != none {
		missing = append(missing, fmt.Errorf("deb and rpm cannot be made without nfpm: make fetch compiles it, PACKAGES=no leaves them out: %w", err))
	}
	if _, err := os.Stat(r.syft); err != nil {
		missing = append(missing, fmt.Errorf("what is in the programs cannot be listed without syft: make fetch compiles it: %w", err))
	}
	return errors.Join(missing...)
}

// packages makes deb and rpm of the node agent: the commands of the node's user.
func (r *release) packages(ctx context.Context) error {
	if r.nfpm == none {
		fmt.Println("      not made, as asked for")
		return nil
	}
	completion := filepath.Join(r.work, "completion")
	if err := os.MkdirAll(completion, 0o755); err != nil { //nolint:gosec // G301: it is packed
		return err
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text, err := golang(ctx, r.cache, nil, "run", "./cmd/node-agent", "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(completion, shell), text, 0o644); err != nil { //nolint:gosec // G306: it is packed
			return err
		}
	}
	for _, p := range onLinux {
		environment := []string{"VERSION=" + r.version, "ARCH=" + p.arch, "PROGRAM=" + r.program("node-agent", p), "COMPLETION=" + completion,
			"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.built.Unix(), 10)}
		for _, packager := range packagers {
			target := r.file(archiveName("node-agent", r.version, p) + "." + packager)
			if _, err := call(ctx, environment, r.nfpm, "package", "--config", "release/nfpm.yaml", "--packager", packager, "--target", target); err != nil {
				return err
			}
		}
	}
	return nil
}
