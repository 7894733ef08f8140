//go:build install

package chart

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestTheREADMEInstallsWithOneCommand: on a fresh cluster, the README's command installs the operator and deploys a gr.
// The image has another name here, and the manager is kept off the simulated nodes, on which nothing runs.
func TestTheREADMEInstallsWithOneCommand(t *testing.T) {
	s := newSite(t)
	s.helm = s.Project.Path("bin", "helm4")
	readme, err := os.ReadFile(s.Project.Path("README.md"))
	check(t, err)
	commands := regexp.MustCompile("`helm (install [^`]+)`").FindAllSubmatch(readme, -1)
	if len(commands) != 1 {
		t.Fatalf("the README has %d commands of helm, want one", len(commands))
	}
	command := strings.ReplaceAll(string(commands[0][1]), "registry.example.com", strings.TrimSuffix(image, "/gcu-operator"))
	s.run(append(strings.Fields(command), "--set-string=nodeSelector.kubernetes\\.io/hostname="+host)...)
	s.eventually("the gr shows 5/5 Running", func() error { return s.shows("5/5") })
}
