package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// chartFolder is the chart, of which the release makes a package.
const chartFolder = "charts/gcu-operator"

// chart packs the chart with the version of the release, notes its image there, which templates run by its
// digest, and adds the license.
func (r *release) chart(context.Context) error {
	replaced := map[string][][2]string{
		"Chart.yaml": {
			{"version: 0.0.0-dev\nappVersion: dev\n", fmt.Sprintf("version: %s\nappVersion: %s\n", strings.TrimPrefix(r.version, "v"), r.version)},
			{"\nannotations:\n", "\nannotations:\n  topsops.enflame.com/image: " + r.image + "\n"},
		},
	}
	var items []item
	err := filepath.WalkDir(chartFolder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(chartFolder, path)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // G304: a file of the chart
		if err != nil {
			return err
		}
		for _, pair := range replaced[name] {
			if bytes.Count(content, []byte(pair[0])) != 1 {
				return fmt.Errorf("%s does not have %q once", path, pair[0])
			}
			content = bytes.Replace(content, []byte(pair[0]), []byte(pair[1]), 1)
		}
		items = append(items, item{"gcu-operator/" + filepath.ToSlash(name), content, 0o644})
		return nil
	})
	if err != nil {
		return err
	}
	license, err := read(0o644, license...)
	if err != nil {
		return err
	}
	for _, file := range license {
		items = append(items, item{"gcu-operator/" + file.name, file.content, file.mode})
	}
	packed, err := r.tarball(items)
	if err != nil {
		return err
	}
	return r.write(chartFile(r.version), packed)
}

func chartFile(version string) string {
	return "gcu-operator-" + strings.TrimPrefix(version, "v") + ".tgz"
}
