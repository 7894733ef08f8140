// Package gfd simulates the feature discovery: it writes the labels of the cards to a
// file for the node's nfd-worker (docs/components.md 1.6).
package gfd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/topsops/gcu-operator/test/standin/gcu"
)

// Directory is the folder that nfd-worker reads.
const Directory = "/etc/kubernetes/node-feature-discovery/features.d"

// file is the name of the feature file.
const file = "gcu-features"

// Run writes the features of the node's cards periodically until ctx is done, and then
// removes them. It holds the cards open, and returns gcu.ErrNoCard if there are none.
func Run(ctx context.Context, node gcu.Node, directory string, interval time.Duration) error {
	cards, err := node.Open()
	if err != nil {
		return err
	}
	defer cards.Close()
	begun := time.Now()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		if err := write(filepath.Join(directory, file), features(node, begun)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			if err := os.Remove(filepath.Join(directory, file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return nil
		case <-tick.C:
		}
	}
}

// features returns one line per label.
func features(node gcu.Node, begun time.Time) string {
	var b strings.Builder
	for _, label := range [][2]string{
		{"gcu.count", fmt.Sprint(len(node.Cards()))},
		{"gcu.driverVer", node.Version()},
		{"gcu.family", "LEO"},
		{"gcu.machine", "standin"},
		{"gcu.memory", "16384"},
		{"gcu.model", "T10"},
		{"gfd.timestamp", fmt.Sprint(begun.Unix())},
	} {
		fmt.Fprintf(&b, "enflame.com/%s=%s\n", label[0], label[1])
	}
	return b.String()
}

// write replaces a file atomically. nfd ignores files whose names begin with a dot.
func write(path, text string) error {
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path))
	if err := os.WriteFile(temporary, []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
