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

// rendered returns config/default with a component, as its kustomization says.
func rendered(t *testing.T, component string) string {
	t.Helper()
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
	overlay := fmt.Sprintf("resources: [%[1]s/config/default]\ncomponents: [%[1]s/config/components/%[2]s]\n", to, component)
	if err := os.WriteFile(filepath.Join(directory, "kustomization.yaml"), []byte(overlay), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("kubectl", "kustomize", directory).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// TestTheCapabilityToSeeHoldersIsAdded renders the kustomization in docs/edge-node.md.
func TestTheCapabilityToSeeHoldersIsAdded(t *testing.T) {
	const want = "            add:\n            - DAC_OVERRIDE\n            - SYS_PTRACE\n            drop:\n            - ALL\n"
	if !strings.Contains(rendered(t, "see-device-holders"), want) {
		t.Errorf("no container with\n%s", want)
	}
	if shipped := read(t, "config/node-agent/daemonset.yaml"); strings.Contains(shipped, "SYS_PTRACE") {
		t.Error("the node agent has the capability by default")
	}
}

// TestBesideYurthubTheAgentHasAnotherPort: yurthub listens on the default one.
func TestBesideYurthubTheAgentHasAnotherPort(t *testing.T) {
	const want = "      - args:\n        - --ota-bind-address=127.0.0.1:10367\n        command:\n        - /usr/bin/node-agent\n"
	if !strings.Contains(rendered(t, "beside-yurthub"), want) {
		t.Errorf("no container with\n%s", want)
	}
}
