package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/gcucli/topscloud"
)

func importCommand(c *cli) *cobra.Command {
	o := output{format: formatYAML}
	command := &cobra.Command{
		Use:   "import FILE",
		Short: "Convert a GcuResource of topscloud.enflame.com",
		Long: `Convert a GcuResource of the newer operator, whose API group is
topscloud.enflame.com, into one of topsops.enflame.com, and print it. What cannot be
converted, what the API server will refuse, and what has a different default here, is
reported on standard error.
Nothing is written to the cluster. FILE may be - for standard input.

The API of the newer operator is not published: review the result before you use
it, and remove the newer operator first: two operators on one node conflict.`,
		Example: `  # Convert, and review what was lost and the result
  kubectl gcu import topscloud-gr.yaml > gr.yaml

  # From the cluster
  kubectl get gcuresources.topscloud.enflame.com NAME -o yaml | kubectl gcu import - > gr.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: runE(func(_ context.Context, args []string) error {
			in, err := readDocument(c.In, args[0])
			if err != nil {
				return err
			}
			out, notes, err := topscloud.Convert(in.Object)
			if err != nil {
				return usageError("%s: %w", args[0], err)
			}
			if o.format != formatJSON && o.format != formatYAML {
				return usageError("-o %s is not one of yaml and json", o.format)
			}
			for _, n := range notes {
				fmt.Fprintln(c.ErrOut, n)
			}
			return c.print(o, out, func(display.Style) string { return "" })
		}),
	}
	command.Flags().StringVarP(&o.format, "output", "o", formatYAML, "`format`: yaml or json")
	complete(command, "output", []string{formatYAML, formatJSON})
	return command
}
