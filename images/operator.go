package main

import (
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// operatorTag is the image of the manager and of the node agent, as config/ names it.
const (
	operatorRepository = "artifact.enflame.cn/enflame_docker_images/enflame/gcu-operator"
	operatorTag        = operatorRepository + ":dev"
)

// searchPath is the PATH of all images.
const searchPath = "PATH=/usr/bin:/bin"

// nonroot is the user of the manager, as config/manager says it.
const nonroot = "65532"

// manifests are the built-in ones, from the root of the project, in which all of this runs.
var manifests = filepath.Join("pkg", "gcuresource", "component", "manifests")

// operatorFiles are the manager, the node agent, the built-in manifests to be read (contract statements 11, 89), and the
// license. Root is that of the project.
func operatorFiles(programs, root string) (fileSet, error) {
	files := fileSet{
		{path: "/usr/bin/manager", source: filepath.Join(programs, "manager"), mode: 0o755},
		{path: "/usr/bin/node-agent", source: filepath.Join(programs, "node-agent"), mode: 0o755},
		{path: "/etc/passwd", text: "root:x:0:0:root:/:/sbin/nologin\nnonroot:x:" + nonroot + ":" + nonroot + ":nonroot:/:/sbin/nologin\n", mode: 0o644},
		{path: "/etc/group", text: "root:x:0:\nnonroot:x:" + nonroot + ":\n", mode: 0o644},
	}
	for _, name := range []string{"LICENSE", "NOTICE"} {
		files = append(files, file{path: "/licenses/" + name, source: filepath.Join(root, name), mode: 0o644})
	}
	folder := filepath.Join(root, manifests)
	found, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no manifests in %s: run this in the root of the project", folder)
	}
	for _, manifest := range found {
		files = append(files, file{path: "/opt/gcu-operator/" + filepath.Base(manifest), source: manifest, mode: 0o644})
	}
	for _, f := range files {
		if f.source == "" {
			continue
		}
		if _, err := os.Stat(f.source); err != nil {
			return nil, fmt.Errorf("%w: run make images", err)
		}
	}
	return files, nil
}

// operatorImage must say what images/Dockerfile says.
func operatorImage(tag, version string) image {
	return image{tag: tag, config: v1.Config{
		Entrypoint: []string{"/usr/bin/manager"},
		User:       nonroot + ":" + nonroot,
		Env:        []string{searchPath},
		Labels:     map[string]string{"org.opencontainers.image.title": "gcu-operator", "org.opencontainers.image.version": version},
	}}
}
