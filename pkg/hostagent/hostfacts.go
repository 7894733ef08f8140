package hostagent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"syscall"
)

// HostFacts are what the files of the node say. What could not be read is empty
// and explained in Missing.
type HostFacts struct {
	// DriverVersion is what the loaded driver says of itself
	// (/sys/module/enflame/version); "" when none is loaded.
	DriverVersion string `json:"driverVersion,omitempty"`
	// Devices is the number of cards, /dev/gcu0 and on; nil when they could not be counted.
	Devices *int `json:"devices,omitempty"`
	// BootID changes with each boot of the node.
	BootID string `json:"bootID,omitempty"`
	// FreeDiskBytes where the engine keeps images; nil when unknown.
	FreeDiskBytes *int64 `json:"freeDiskBytes,omitempty"`
	// Missing explains what could not be read, sorted by what it is about.
	Missing []string `json:"missing,omitempty"`
}

const (
	driverVersionFile = "sys/module/enflame/version"
	bootIDFile        = "proc/sys/kernel/random/boot_id"
	devicesDirectory  = "dev"
)

// cardPattern leaves out gcuctl and vgcu (components 1.0).
var cardPattern = regexp.MustCompile(`^gcu[0-9]+$`)

// readHostFacts reads below a host root.
func readHostFacts(hostRoot string) HostFacts {
	root, err := os.OpenRoot(hostRoot)
	if err != nil {
		return HostFacts{Missing: []string{fmt.Sprintf("host root: %v", err)}}
	}
	defer func() { _ = root.Close() }() // it was read only
	return hostFactsOf(root.FS())
}

func hostFactsOf(host fs.FS) HostFacts {
	var facts HostFacts
	note := func(what string, err error) {
		if err != nil {
			facts.Missing = append(facts.Missing, fmt.Sprintf("%s: %v", what, err))
		}
	}
	var err error
	facts.BootID, err = line(host, bootIDFile)
	note("boot id", err)
	cards, err := countCards(host)
	if err == nil {
		facts.Devices = &cards
	}
	note("devices", err)
	facts.DriverVersion, err = line(host, driverVersionFile)
	note("driver version", err)
	return facts
}

// freeDisk returns what is free, for others than root too, on the disk of a
// directory of the host.
func freeDisk(hostRoot, directory string) (bytes int64, err error) {
	if directory == "" {
		return 0, errors.New("the engine does not tell where it keeps images")
	}
	root, err := os.OpenRoot(hostRoot)
	if err != nil {
		return 0, err
	}
	defer func() { _ = root.Close() }()
	opened, err := root.Open(strings.TrimPrefix(directory, "/"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = opened.Close() }()
	var disk syscall.Statfs_t
	if err := syscall.Fstatfs(int(opened.Fd()), &disk); err != nil {
		return 0, err
	}
	return int64(disk.Bavail) * disk.Bsize, nil
}

func countCards(host fs.FS) (int, error) {
	entries, err := fs.ReadDir(host, devicesDirectory)
	if err != nil {
		return 0, err
	}
	cards := 0
	for _, entry := range entries {
		if cardPattern.MatchString(entry.Name()) && !entry.IsDir() {
			cards++
		}
	}
	return cards, nil
}

// line reads a file that holds one line.
func line(host fs.FS, name string) (string, error) {
	data, err := fs.ReadFile(host, name)
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", fmt.Errorf("/%s is empty", name)
	}
	return text, nil
}
