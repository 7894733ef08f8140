package realnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/topsops/gcu-operator/test/cluster/internal/progress"
	"github.com/topsops/gcu-operator/test/install"
)

// needed are the programs that real nodes need.
var needed = []string{"containerd", "ctr", "runc", "ip", "iptables", "runsvdir", "/usr/lib/cni/bridge", "dockerd"}

// Ensure installs missing programs that real nodes need. If that is not possible, the
// error says what to do.
func Ensure(ctx context.Context, out *progress.Printer) error {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		return errors.New("--real-nodes needs Linux and root: network namespaces, cgroups and container runtimes")
	}
	missing := install.Missing(needed...)
	if len(missing) == 0 {
		return nil
	}
	return out.Step("installed: "+strings.Join(missing, " "), func() error {
		if err := install.Programs(ctx, needed...); err != nil {
			return fmt.Errorf("--real-nodes: %w", err)
		}
		return nil
	})
}
