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
	programs  = "make test builds the programs so, and each cluster of its stories runs them outside of pods, with the rights of their accounts"
	published = "needs docker and a registry: make images builds from the same Dockerfile, and test/nodes runs the images on real kubelets"
)

// exceptions are all of them.
var exceptions = []exception{
	{"README.md", "Try it: two commands", "", "are the tests and the demo themselves: test/fresh-machine runs them in a minimal root file system"},
	{"README.md", "Install", "docker ", published},
	{"README.md", "Install", "make deploy", published},
	{"docs/install.md", "Helm", "", helmStory},
	{"docs/install.md", "The files of a release", "", "TestTheChecksumsAreThoseOfAllFilesAndAreSigned (release) runs them"},
	{"docs/install.md", "The image", "docker ", published},
	{"docs/install.md", "The image", "helm ", helmStory},
	{"docs/install.md", "The image", "make build", programs},
	{"docs/install.md", "The image", "bin/manager", programs},
	{"docs/install.md", "Deploy the GCU software", "", "the same commands as in README.md, Install, which a story runs"},
	{"docs/install.md", "Without a network", "", helmStory},
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
