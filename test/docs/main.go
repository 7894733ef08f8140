// Command docs writes the generated part of the documentation: docs/reference/cli.md
// and flags.md from the programs' --help, metrics.md from the manager's registry, the pages
// of troubleshooting from the advice of kubectl gcu, contract.md from the names of tests,
// demo.md from the recording of the demo, and docs/rollout.svg from a golden output of kubectl gcu. docs/reference/api.md is
// written by crd-ref-docs; see the Makefile. The roles and bindings of components go to
// config/rbac and config/volcano. Its tests check the whole documentation:
// links, commands, flags, and that generated files are up to date.
//
//	go run ./test/docs [ROOT]     (default: the current directory)
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	if err := write(root); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

// write generates all files below root, the top of the source tree.
func write(root string) error {
	p, err := readPrograms(root)
	if err != nil {
		return err
	}
	files, err := generate(root, p)
	if err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generate returns the text of each generated file by its path relative to root.
func generate(root string, p programs) (map[string]string, error) {
	golden, err := os.ReadFile(filepath.Join(root, "pkg/gcucli/display/testdata/golden/rolling.status.txt"))
	if err != nil {
		return nil, err
	}
	metrics, err := metricsPage()
	if err != nil {
		return nil, err
	}
	files, err := component.InstalledYAML()
	if err != nil {
		return nil, err
	}
	for name, text := range files {
		files[name] = installedHead + text
	}
	alerts, err := alertFiles(root)
	if err != nil {
		return nil, err
	}
	maps.Copy(files, alerts)
	demo, err := demoPage(root)
	if err != nil {
		return nil, err
	}
	contract, err := testsOfContract(root)
	if err != nil {
		return nil, err
	}
	troubleshooting, chinese := troubleshootingPages()
	maps.Copy(files, map[string]string{
		"docs/troubleshooting.md":    troubleshooting,
		"docs/zh/troubleshooting.md": chinese,
		"docs/reference/contract.md": contractPage(contract),
		"docs/reference/cli.md":      cliPage(p),
		"docs/reference/flags.md":    flagsPage(p),
		"docs/reference/metrics.md":  metrics,
		"docs/demo.md":               demo,
		"docs/rollout.svg":           picture("kubectl gcu status my-gr", string(golden)),
	})
	return files, nil
}

const installedHead = `# Roles and bindings of components, from pkg/gcuresource/component/manifests by make generate. The
# operator does not write them (docs/adr/0015-rights-of-the-manager.md).
`
