package cli

import (
	"github.com/spf13/cobra"

	"github.com/topsops/gcu-operator/test/cluster/internal/cluster"
)

// componentAction is the effect of one of the component commands.
type componentAction struct {
	verb, short, long string
	act               func(s *cluster.State, name string) error
}

var (
	componentKill = componentAction{
		verb: "kill", short: "Kill components of the control plane, like a crash",
		long: "Kill components of the control plane, such as etcd or kube-apiserver, with SIGKILL, and\nreturn when they have exited. Their data is kept.",
		act:  (*cluster.State).KillComponent,
	}
	componentStart = componentAction{
		verb: "start", short: "Start components that have died again, with their old data",
		long: "Start components that have died again, with the same arguments and data, in the given\norder. Does not wait until they are healthy.",
		act:  (*cluster.State).StartComponent,
	}
	componentFreeze = componentAction{
		verb: "freeze", short: "Suspend components: they run, and do nothing",
		long: "Suspend components with SIGSTOP, until component-thaw: their connections stay open, and\nnothing is answered.",
		act:  (*cluster.State).FreezeComponent,
	}
	componentThaw = componentAction{
		verb: "thaw", short: "Resume frozen components",
		long: "Resume components that component-freeze has suspended.",
		act:  (*cluster.State).ThawComponent,
	}
)

func (r *root) componentCommand(action componentAction) *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "component-" + action.verb + " --dir DIR NAME...",
		Short:   action.short,
		Long:    action.long,
		Example: "  testcluster component-" + action.verb + " --dir /tmp/tc kube-apiserver",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, names []string) error {
			state, err := load(dir)
			if err != nil {
				return err
			}
			for _, name := range names {
				if err := action.act(state, name); err != nil {
					return err
				}
			}
			return nil
		},
	}
	addDir(cmd, &dir)
	return cmd
}
