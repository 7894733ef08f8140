package realnode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/topsops/gcu-operator/test/cluster/internal/progress"
)

// needed are the programs that real nodes need, with the packages of Debian that have them.
var needed = map[string]string{
	"containerd":          "containerd",
	"ctr":                 "containerd",
	"runc":                "runc",
	"ip":                  "iproute2",
	"iptables":            "iptables",
	"runsvdir":            "runit",
	"/usr/lib/cni/bridge": "containernetworking-plugins",
	"dockerd":             "docker.io",
}

// Ensure installs what is missing of the programs that real nodes need. Where that
// cannot be done, the error says what to do.
func Ensure(ctx context.Context, out *progress.Printer) error {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		return errors.New("--real-nodes needs Linux and root: network namespaces, cgroups and container runtimes")
	}
	missing := missingPackages(exec.LookPath)
	if len(missing) == 0 {
		return nil
	}
	install := "apt-get install --no-install-recommends " + strings.Join(missing, " ")
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		return fmt.Errorf("--real-nodes needs more programs: run %s (it is not done here, because systemd would start them)", install)
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("--real-nodes needs more programs: install what on Debian would be: %s", install)
	}
	return out.Step("installed: "+strings.Join(missing, " "), func() error {
		for _, args := range [][]string{{"update"}, append([]string{"install", "--yes", "--no-install-recommends"}, missing...)} {
			cmd := exec.CommandContext(ctx, "apt-get", args...)
			cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
			var printed bytes.Buffer
			cmd.Stdout, cmd.Stderr = &printed, &printed
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("installing what real nodes need (%s): apt-get %s: %w: %s", install, args[0], err, lastLine(printed.String()))
			}
		}
		return nil
	})
}

// missingPackages returns the packages of the programs that are not found, sorted.
func missingPackages(find func(string) (string, error)) []string {
	var missing []string
	for program, debian := range needed {
		if _, err := find(program); err != nil {
			missing = append(missing, debian)
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
