//go:build install

package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// applied is the tag of the image that kustomize installs.
const applied = "applied"

// TestHelmTakesOverWhatKustomizeInstalled: with the commands of docs/install.md, although the image has another tag then.
func TestHelmTakesOverWhatKustomizeInstalled(t *testing.T) {
	s := newSite(t)
	_, err := s.OnNode(s.ctx, host, nil, "ctr", "--namespace=k8s.io", "images", "tag", image+":dev", image+":"+applied)
	check(t, err)
	page, err := os.ReadFile(s.Project.Path("docs", "install.md"))
	check(t, err)
	commands := regexp.MustCompile("(?m)^helm ((?:install .*--take-ownership|upgrade .*--set hooks.removeGcuResources=true)[^#\n]*)#").FindAllStringSubmatch(string(page), -1)
	if len(commands) != 2 {
		t.Fatalf("docs/install.md has %d commands, want two", len(commands))
	}
	for _, helm := range []string{"helm3", "helm4"} {
		t.Run(helm, func(t *testing.T) {
			s := s.in(t)
			s.helm = s.Project.Path("bin", helm)
			s.applies(applied)
			command := commands[0][1]
			if helm == "helm3" {
				command = strings.Replace(command, "--force-conflicts", "", 1) // as the page says
			}
			s.run(append(strings.Fields(command), "--set=gcuResource.deploy=true", "--set-string=nodeSelector.kubernetes\\.io/hostname="+host)...)
			s.eventually("the manager has the image of the chart", func() error {
				images := s.kubectl("get", "pods", "-n", "kube-system", "-l", "app.kubernetes.io/name=gcu-operator", "-o", "jsonpath={.items[*].spec.containers[*].image}")
				if images != image+":dev" {
					return fmt.Errorf("managers have images %s", images)
				}
				return s.shows("5/5")
			})
			s.run(strings.Fields(commands[1][1])...)
			s.run("uninstall", "gcu-operator")
			s.eventually("what is left is what docs/install.md says", s.isGone)
		})
	}
}

// applies installs config/default with a tag of the image, and keeps the manager on the node where it can run.
func (s *site) applies(tag string) {
	s.t.Helper()
	folder := s.t.TempDir()
	base, err := filepath.Rel(folder, s.Project.Path("config", "default"))
	check(s.t, err)
	check(s.t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), fmt.Appendf(nil, `resources: [%s]
images: [{name: %s, newTag: %s}]
patches:
  - target: {kind: Deployment, name: gcu-operator}
    patch: '[{"op": "add", "path": "/spec/template/spec/nodeSelector", "value": {"kubernetes.io/hostname": %q}}]'
`, base, image, tag, host), 0o600))
	s.kubectl("apply", "--server-side", "-k", folder)
	s.kubectl("rollout", "status", "-n", "kube-system", "deployment/gcu-operator", "--timeout=4m")
}
