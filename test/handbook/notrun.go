package handbook

import (
	"fmt"
	"slices"
	"strings"
)

// exception is a command, or are the commands of a section, that no story of test/e2e runs.
type exception struct {
	page, section string
	// command is how the command begins; "" are all of the section.
	command string
	// why not, and what is tested instead.
	why string
}

const (
	helmStory = "needs helm and images that nodes can pull: test/chart installs from the chart, with the README's command and with those of the section Without a network"
	later     = "no story yet"
	release   = "needs the files of a release, of which there is none yet"
	published = "needs docker and a registry: make images builds from the same Dockerfile, and test/nodes runs the images on real kubelets"
)

// exceptions are all of them.
var exceptions = []exception{
	{"README.md", "Try it: two commands", "", "are the tests and the demo themselves: test/fresh-machine runs them in a minimal root file system"},
	{"README.md", "Install", "docker ", published},
	{"README.md", "Install", "make deploy", published},
	{"README.md", "Install", "kubectl", later},
	{"README.md", "First upgrade", "", later},
	{"README.md", "Why is it stuck?", "", later},
	{"docs/install.md", "Helm", "", helmStory},
	{"docs/install.md", "The files of a release", "", release},
	{"docs/install.md", "The image", "", published},
	{"docs/install.md", "Deploy the GCU software", "", later},
	{"docs/install.md", "Without a network", "", helmStory},
	{"docs/install.md", "Roles of people", "", later},
	{"docs/install.md", "GCUs in nodes of the control plane", "", later},
	{"docs/install.md", "Node agent rights", "", later},
	{"docs/install.md", "Pull secrets", "", later},
	{"docs/install.md", "Remove it", "", later},
	{"docs/upgrade.md", "Tasks before and after the nodes", "kubectl logs", "simulated nodes run no containers, so there are no logs"},
}

// covers returns whether a command is the exception.
func (e exception) covers(page, section, command string) bool {
	return e.page == page && e.section == section && strings.HasPrefix(command, e.command)
}

// whyNot returns why no story runs a command, "" if one must.
func whyNot(page, section, command string) string {
	for _, e := range exceptions {
		if e.covers(page, section, command) {
			return e.why
		}
	}
	return ""
}

// Unused returns the exceptions that match no command of the pages below root.
func Unused(root string) ([]string, error) {
	left := slices.Clone(exceptions)
	for _, page := range All {
		sections, err := Read(root, page)
		if err != nil {
			return nil, err
		}
		for _, s := range sections {
			for _, c := range slices.Concat(s.Blocks...) {
				left = slices.DeleteFunc(left, func(e exception) bool { return e.covers(s.Page, s.Title, c.Text) })
			}
		}
	}
	var unused []string
	for _, e := range left {
		unused = append(unused, fmt.Sprintf("%s, %q: %q", e.page, e.section, e.command))
	}
	return unused, nil
}
