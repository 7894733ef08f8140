package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/topsops/gcu-operator/test/need"
)

// TestTheCapabilityToSeeHoldersIsAdded renders the kustomization in docs/edge-node.md.
func TestTheCapabilityToSeeHoldersIsAdded(t *testing.T) {
	if _, err := exec.LookPath("kubectl"); err != nil {
		need.Skip(t, "config/components needs kubectl, to render it")
	}
	directory := t.TempDir()
	to, err := filepath.Abs(root)
	if err == nil {
		to, err = filepath.Rel(directory, to)
	}
	if err != nil {
		t.Fatal(err)
	}
	overlay := fmt.Sprintf("resources: [%[1]s/config/default]\ncomponents: [%[1]s/config/components/see-device-holders]\n", to)
	if err := os.WriteFile(filepath.Join(directory, "kustomization.yaml"), []byte(overlay), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("kubectl", "kustomize", directory).CombinedOutput()
	const want = "            add:\n            - DAC_OVERRIDE\n            - SYS_PTRACE\n            drop:\n            - ALL\n"
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: no container with\n%s", err, want)
	}
	if shipped := read(t, "config/node-agent/daemonset.yaml"); strings.Contains(shipped, "SYS_PTRACE") {
		t.Error("the node agent has the capability by default")
	}
}
