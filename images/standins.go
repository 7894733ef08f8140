package main

import (
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Repositories of the components, as examples/gcu-resource.yaml names them.
const (
	enflameRepository = "artifact.enflame.cn/enflame_docker_images/enflame/"
	galaxyRepository  = "artifact.enflame.cn/galaxy_docker_hub/gcu/"
)

// standin is a component: its image and what it runs.
type standin struct {
	repository string
	// play is the argument of the program; "" for a pod that names its own command.
	play string
	tags []string
	// behaviors are tags of versions that are bad, named after STANDIN_BEHAVIOR.
	behaviors []string
}

// versions of a component: the one that the examples name, and the next.
var versions = []string{"latest", "2.0.0"}

var standins = []standin{
	{repository: enflameRepository + "node-feature-discovery", tags: []string{"v0.11.3", "v0.11.4"}},
	{repository: galaxyRepository + "gcu-driver", play: "driver", tags: versions, behaviors: []string{"fail", "hang", "never-ready", "cut-network"}},
	{repository: galaxyRepository + "gcu-runtime", play: "toolkit", tags: versions, behaviors: []string{"keep-default"}},
	{repository: galaxyRepository + "gcu-plugin", play: "device-plugin", tags: versions},
	{repository: enflameRepository + "gcu-exporter", play: "exporter", tags: versions},
	{repository: galaxyRepository + "gcu-gfd", play: "gfd", tags: versions},
	{repository: enflameRepository + "gcu-workload", play: "workload", tags: []string{"latest"}},
}

// versionOf is what a driver of a tag says of itself.
func versionOf(tag string) string {
	if tag == "latest" {
		return "1.0.0"
	}
	return tag
}

// standinFiles are the program that plays all components, under the names that pods
// call it by, and the runtime that the toolkit installs.
func standinFiles(programs, busybox string) (fileSet, error) {
	files := append(shell(busybox),
		file{path: "/usr/bin/standin", source: filepath.Join(programs, "standin"), mode: 0o755},
		file{path: "/usr/bin/nfd-master", link: "standin"},
		file{path: "/usr/bin/nfd-worker", link: "standin"},
		file{path: "/usr/bin/enflame-container-runtime", source: filepath.Join(programs, "enflame-container-runtime"), mode: 0o755},
	)
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

// standinImages are all versions of all components.
func standinImages() []image {
	var images []image
	for _, s := range standins {
		for _, tag := range s.tags {
			images = append(images, s.image(tag, ""))
		}
		for _, behavior := range s.behaviors {
			images = append(images, s.image(behavior, behavior))
		}
	}
	return images
}

func (s standin) image(tag, behavior string) image {
	config := v1.Config{Env: []string{searchPath, "STANDIN_VERSION=" + versionOf(tag)}}
	if behavior != "" {
		config.Env = append(config.Env, "STANDIN_BEHAVIOR="+behavior)
	}
	if s.play != "" {
		config.Entrypoint = []string{"/usr/bin/standin", s.play}
	}
	return image{tag: s.repository + ":" + tag, config: config}
}
