//go:build install

package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheREADMEInstallsWithOneCommand: on a fresh cluster, the README's command installs the operator and deploys a gr, with
// Helm 3 and 4. The image has another name here, and the manager is kept off the simulated nodes, on which nothing runs.
func TestTheREADMEInstallsWithOneCommand(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	check(t, err)
	commands := regexp.MustCompile("`helm (install [^`]+)`").FindAllSubmatch(readme, -1)
	if len(commands) != 1 {
		t.Fatalf("the README has %d commands of helm, want one", len(commands))
	}
	command := strings.ReplaceAll(string(commands[0][1]), "registry.example.com", strings.TrimSuffix(image, "/gcu-operator"))
	for _, helm := range []string{"helm3", "helm4"} {
		t.Run(helm, func(t *testing.T) {
			s := newSite(t)
			s.helm = s.Project.Path("bin", helm)
			s.run(append(strings.Fields(command), "--set-string=nodeSelector.kubernetes\\.io/hostname="+host)...)
			s.eventually("the gr shows 5/5 Running", func() error { return s.shows("5/5") })
			s.run("uninstall", "gcu-operator")
			s.eventually("what is left is what docs/install.md says", s.isGone)
		})
	}
}
