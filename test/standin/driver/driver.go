// Package driver simulates the driver: a visible version and cards, and different kinds
// of bad versions.
package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/topsops/gcu-operator/test/standin/gcu"
)

// Behavior is how a version of the driver misbehaves; "" is a good one.
type Behavior string

// Behaviors. All of them unload the previous version.
const (
	Fail       Behavior = "fail"        // the installer fails
	Hang       Behavior = "hang"        // it never finishes, and ignores SIGTERM
	NeverReady Behavior = "never-ready" // it never finishes
	CutNetwork Behavior = "cut-network" // it is loaded, and then the node loses its network
)

// Driver is one version.
type Driver struct {
	// Node is the node on which it is loaded, Host the node's root for its library.
	Node gcu.Node
	Host string
	// Processes is the node's /proc.
	Processes string
	Version   string
	Behavior  Behavior
	// Cards is the number of cards it shows.
	Cards int
	// Delay is the loading time; with CutNetwork, the time from loading until the network
	// is cut.
	Delay time.Duration
	// MakeCard creates the device of a card; CutNetwork cuts the node's network.
	MakeCard   func(path string) error
	CutNetwork func() error
}

// Run loads the version, unless it is already loaded, and waits until ctx is done. The
// driver stays loaded.
func (d Driver) Run(ctx context.Context) error {
	if !slices.Contains([]Behavior{"", Fail, Hang, NeverReady, CutNetwork}, d.Behavior) {
		return fmt.Errorf("no behavior of a driver is called %q", d.Behavior)
	}
	if loaded := d.Node.Version(); loaded == d.Version {
		log.Printf("version %s is loaded already", loaded)
		<-ctx.Done()
		return nil
	}
	if err := d.unload(); err != nil {
		return err
	}
	switch d.Behavior {
	case Fail:
		return fmt.Errorf("version %s cannot be loaded: its module was made for another kernel", d.Version)
	case Hang:
		select {}
	case NeverReady:
		<-ctx.Done()
		return nil
	}
	if d.Behavior != CutNetwork && !wait(ctx, d.Delay) {
		return nil
	}
	if err := d.load(); err != nil {
		return err
	}
	if d.Behavior == CutNetwork && wait(ctx, d.Delay) {
		log.Print("the node loses its network")
		if err := d.CutNetwork(); err != nil {
			return fmt.Errorf("cutting the network of the node: %w", err)
		}
	}
	<-ctx.Done()
	return nil
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// unload unloads the loaded version. It fails if a card is in use.
func (d Driver) unload() error {
	users, err := d.users()
	if err != nil {
		return fmt.Errorf("listing users of the cards: %w", err)
	}
	if len(users) > 0 {
		return fmt.Errorf("version %s cannot be unloaded, module enflame is in use by: %s", d.Node.Version(), strings.Join(users, ", "))
	}
	if err := os.RemoveAll(d.bootFile()); err != nil {
		return fmt.Errorf("unloading: %w", err)
	}
	for _, card := range d.Node.Cards() {
		if err := os.Remove(card); err != nil {
			return fmt.Errorf("unloading: %w", err)
		}
	}
	if err := os.RemoveAll(filepath.Dir(d.Node.VersionFile())); err != nil {
		return fmt.Errorf("unloading: %w", err)
	}
	return nil
}

// users returns the id and name of each process that has a card open.
func (d Driver) users() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(d.Processes, "[0-9]*/fd/*"))
	if err != nil {
		return nil, err
	}
	var users []string
	for _, file := range files {
		target, err := os.Readlink(file)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !strings.HasPrefix(target, "/dev/gcu") {
			continue // the process has exited, or the file is closed or not a card
		}
		if err != nil {
			return nil, err
		}
		process := filepath.Dir(filepath.Dir(file))
		name, err := os.ReadFile(filepath.Join(process, "comm"))
		if err != nil {
			continue // the process has exited
		}
		user := fmt.Sprintf("%s (%s)", strings.TrimSpace(string(name)), filepath.Base(process))
		if !slices.Contains(users, user) {
			users = append(users, user)
		}
	}
	return users, nil
}

// Install replaces the loaded version.
func (d Driver) Install() error {
	if err := d.unload(); err != nil {
		return err
	}
	return d.load()
}

func (d Driver) load() error {
	if err := d.show(); err != nil {
		return fmt.Errorf("loading version %s: %w", d.Version, err)
	}
	log.Printf("version %s is loaded", d.Version)
	return nil
}

// show creates the cards, the library, the boot script, and last the version file.
func (d Driver) show() error {
	for i := range d.Cards {
		if err := d.MakeCard(d.Node.Card(i)); err != nil {
			return err
		}
	}
	if err := d.installLibrary(); err != nil {
		return err
	}
	if err := d.loadAtBoot(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(d.Node.VersionFile()), 0o755); err != nil {
		return err
	}
	return os.WriteFile(d.Node.VersionFile(), []byte(d.Version+"\n"), 0o644)
}

// bootFile is the script that a test node runs at boot.
func (d Driver) bootFile() string { return filepath.Join(d.Host, "etc/boot.node/enflame") }

// loadAtBoot makes the version load at boot, like its installer (docs/components.md
// 1.2, --no-auto-load): before the kubelet, and so before users of the cards.
func (d Driver) loadAtBoot() error {
	node := gcu.Node{Root: "/"}
	script := "#!/bin/sh\nset -e\n"
	for i := range d.Cards {
		script += fmt.Sprintf("mknod -m 666 %s c 1 3\n", node.Card(i))
	}
	script += fmt.Sprintf("mkdir -p %s\necho %s >%s\n", filepath.Dir(node.VersionFile()), d.Version, node.VersionFile())
	if err := os.MkdirAll(filepath.Dir(d.bootFile()), 0o755); err != nil {
		return err
	}
	// A name that is not run, in case of a power loss.
	unfinished := filepath.Join(filepath.Dir(d.bootFile()), ".enflame.new")
	if err := os.WriteFile(unfinished, []byte(script), 0o755); err != nil {
		return err
	}
	return os.Rename(unfinished, d.bootFile())
}

// installLibrary installs libefml where exporter and gfd mount it: a symlink into the
// folder of its version (docs/components.md 1.0).
func (d Driver) installLibrary() error {
	const folder = "/usr/local/efsmi"
	library := filepath.Join(folder, "efsmi-"+d.Version, "lib/libefml.so")
	if err := os.MkdirAll(filepath.Join(d.Host, filepath.Dir(library)), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(d.Host, library), []byte("libefml "+d.Version+"\n"), 0o644); err != nil {
		return err
	}
	link := filepath.Join(d.Host, "usr/lib/libefml.so")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	if err := os.RemoveAll(link + ".new"); err != nil {
		return err
	}
	if err := os.Symlink(library, link+".new"); err != nil {
		return err
	}
	return os.Rename(link+".new", link)
}
