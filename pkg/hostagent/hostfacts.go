package hostagent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
)

// HostFacts are what the files of the node say. What could not be read is empty
// and explained in Missing.
type HostFacts struct {
	// DriverVersion is what the loaded driver says of itself
	// (/sys/module/enflame/version); "" when none is loaded.
	DriverVersion string `json:"driverVersion,omitempty"`
	// Devices is the number of cards, /dev/gcu0 and on.
	Devices int `json:"devices"`
	// BootID changes with each boot of the node.
	BootID string `json:"bootID,omitempty"`
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

// readHostFacts reads below a host root. It returns an error only when the root
// itself cannot be opened.
func readHostFacts(hostRoot string) (facts HostFacts, err error) {
	root, err := os.OpenRoot(hostRoot)
	if err != nil {
		return HostFacts{}, fmt.Errorf("opening the host root: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return hostFactsOf(root.FS()), nil
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
	facts.Devices, err = countCards(host)
	note("devices", err)
	facts.DriverVersion, err = line(host, driverVersionFile)
	note("driver version", err)
	return facts
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
