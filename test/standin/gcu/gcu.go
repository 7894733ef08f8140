// Package gcu reads a node's cards and their driver from its files (docs/components.md
// 1.0).
package gcu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Node is a node, or the part of it that a container sees.
type Node struct {
	// Root is the folder with its /sys and /dev.
	Root string
}

// VersionFile is the file with the version of a loaded driver.
func (n Node) VersionFile() string { return filepath.Join(n.Root, "sys/module/enflame/version") }

// Card is the device of the i-th card, counted from 0.
func (n Node) Card(i int) string { return filepath.Join(n.Root, "dev", fmt.Sprintf("gcu%d", i)) }

// Version returns the version of the loaded driver; "" if none is loaded.
func (n Node) Version() string {
	data, err := os.ReadFile(n.VersionFile())
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Cards returns the devices of the visible cards, sorted.
func (n Node) Cards() []string {
	cards, err := filepath.Glob(filepath.Join(n.Root, "dev/gcu[0-9]*"))
	if err != nil {
		return nil // the pattern is valid
	}
	return cards
}

// ErrNoCard means that no card is visible.
var ErrNoCard = errors.New("no GCU is visible: check that the driver is loaded and the device is allocated to this container")

// Cards are open cards, which are in use: their driver cannot be unloaded.
type Cards []*os.File

// Open opens all visible cards. It returns ErrNoCard without a loaded driver or a card.
func (n Node) Open() (Cards, error) {
	var open Cards
	for _, path := range n.Cards() {
		card, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			open.Close()
			return nil, fmt.Errorf("opening a card: %w", err)
		}
		open = append(open, card)
	}
	if n.Version() == "" || len(open) == 0 {
		open.Close()
		return nil, ErrNoCard
	}
	return open, nil
}

// Close releases the cards.
func (c Cards) Close() {
	for _, card := range c {
		_ = card.Close() // nothing was written
	}
}
