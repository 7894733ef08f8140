package procfs

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// devicePattern matches the names of cards, virtual cards and the control device: all are of the
// driver's module, which cannot be removed while any of them is open.
var devicePattern = regexp.MustCompile(`^v?gcu[0-9A-Za-z._-]{0,58}$`)

// deviceDirectory is where the devices of the host are.
const deviceDirectory = "/dev/"

// File is what the kernel says about a file, by whatever path it was found.
type File struct {
	// Character: it is a character device, with this number.
	Character bool
	Number    uint64
	// Major and Minor are the device of its file system, which together with the inode identifies it.
	Major, Minor uint32
	Inode        uint64
}

// place is the file in /proc/PID/maps: device and inode.
func (f File) place() string { return fmt.Sprintf("%02x:%02x %d", f.Major, f.Minor, f.Inode) }

// Devices are the character devices of the host. A process may have one open under any path: the
// kernel shows it in the process's own tree of mounts.
type Devices struct {
	// numbers and places have the path of each device of the accelerator, others the numbers of the rest.
	numbers map[uint64]string
	places  map[string]string
	others  map[uint64]bool
}

// DevicesOf returns the devices among the files in /dev, by name.
func DevicesOf(files map[string]File) Devices {
	d := Devices{numbers: map[uint64]string{}, places: map[string]string{}, others: map[uint64]bool{}}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		switch _, known := d.numbers[f.Number]; {
		case !f.Character:
		case !devicePattern.MatchString(name):
			d.others[f.Number] = true
		default:
			d.places[f.place()] = deviceDirectory + name
			if !known {
				d.numbers[f.Number] = deviceDirectory + name
			}
		}
	}
	return d
}

// Opened returns the path on the host of the device of the accelerator that an open file is, ""
// when it is something else. link is that in /proc/PID/fd, "" if the kernel does not tell it. The name in it tells only
// where the number does not: of a device that was removed while open, which is still in use, and of one
// whose number another device of the host has too. Without a name, the latter counts as a device of the accelerator.
func (d Devices) Opened(link string, f File) string {
	device := d.numbers[f.Number]
	switch {
	case !f.Character:
		return ""
	case device != "" && (!d.others[f.Number] || link == ""):
		return device
	case device == "" && d.others[f.Number]:
		return ""
	}
	name := path.Base(strings.TrimSuffix(link, " (deleted)"))
	if !devicePattern.MatchString(name) {
		return ""
	}
	return deviceDirectory + name
}

// maxLooks bounds how often Mapped looks at a file for one process, which may have mapped many thousands.
const maxLooks = 16

// Mapped returns the first device of the accelerator in /proc/PID/maps, "" for none: one at the
// place of a device of the host, or at its path in a container, whose /dev has nodes of its own. There, at
// looks at a path in the tree of mounts of the process; what it cannot tell to be another file counts as a device, and so does
// what is left after maxLooks.
func (d Devices) Mapped(maps io.Reader, at func(path string) (File, error)) (string, error) {
	const device, inode, beforePath = 3, 4, 5 // after address, permissions, offset
	looks := 0
	for lines := bufio.NewReader(maps); ; {
		line, err := startOfLine(lines)
		if errors.Is(err, io.EOF) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		fields := strings.Fields(line)
		if len(fields) <= beforePath {
			continue
		}
		place, path := fields[device]+" "+fields[inode], fields[beforePath]
		if found := d.places[place]; found != "" {
			return found, nil
		}
		name, below := strings.CutPrefix(path, deviceDirectory)
		if !below || !devicePattern.MatchString(name) {
			continue
		}
		switch strings.Join(fields[beforePath+1:], " ") {
		case "":
			if looks++; looks > maxLooks {
				return path, nil
			}
			if f, err := at(path); err == nil && !f.Character && f.place() == place {
				continue
			}
			return path, nil
		case "(deleted)":
			return path, nil
		}
	}
}

// startOfLine returns the next line, or the start of one with a long path, which has all but its path.
func startOfLine(lines *bufio.Reader) (string, error) {
	part, more, err := lines.ReadLine()
	line := string(part)
	for more && err == nil {
		_, more, err = lines.ReadLine()
	}
	return line, err
}
