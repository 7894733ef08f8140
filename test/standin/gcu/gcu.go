// Package gcu is what a node shows of its cards and their driver (docs/components.md 1.0).
package gcu

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Node is a node, or the part of it that a container is given.
type Node struct {
	// Root is the folder with its /sys and /dev.
	Root string
}

// VersionFile is where a loaded driver says its version.
func (n Node) VersionFile() string { return filepath.Join(n.Root, "sys/module/enflame/version") }

// Card is the device of the i-th card, counted from 0.
func (n Node) Card(i int) string { return filepath.Join(n.Root, "dev", fmt.Sprintf("gcu%d", i)) }

// Version returns what the loaded driver says; "" when none is loaded.
func (n Node) Version() string {
	data, err := os.ReadFile(n.VersionFile())
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// Cards returns the devices of the cards that can be seen here, sorted.
func (n Node) Cards() []string {
	cards, err := filepath.Glob(filepath.Join(n.Root, "dev/gcu[0-9]*"))
	if err != nil {
		return nil // the pattern is a good one
	}
	return cards
}

// ErrNoCard tells that there is no card to use.
var ErrNoCard = errors.New("no GCU can be seen: is the driver loaded, and was the device given to this container?")

// Cards that are open are in use: their driver cannot be unloaded.
type Cards []*os.File

// Open opens all cards that can be seen. Without a loaded driver and a card it is
// ErrNoCard.
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

// Close gives the cards back.
func (c Cards) Close() {
	for _, card := range c {
		_ = card.Close() // nothing was written
	}
}
