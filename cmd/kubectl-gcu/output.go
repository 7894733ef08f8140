package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/topsops/gcu-operator/pkg/gcucli/view"
)

// formats of -o.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

var formats = []string{formatTable, formatWide, formatJSON, formatYAML}

// output is the flag -o; also are formats that one command has besides.
type output struct {
	format string
	also   []string
}

func (o *output) bind(command *cobra.Command) {
	all := slices.Concat(formats, o.also)
	last := len(all) - 1
	command.Flags().StringVarP(&o.format, "output", "o", formatTable, "`format`: "+strings.Join(all[:last], ", ")+" or "+all[last])
	complete(command, "output", all)
	command.PreRunE = func(*cobra.Command, []string) error {
		if !slices.Contains(all, o.format) {
			return misused("-o %s is not one of %s", o.format, strings.Join(all, ", "))
		}
		return nil
	}
}

// list is how several things are printed as JSON or YAML.
type list[T any] struct {
	Items []T `json:"items"`
}

// print writes a value in the format that was asked for; text makes its words.
func (c *cli) print(o output, value any, text func(view.Style) string) error {
	style := c.style()
	var out string
	switch o.format {
	case formatTable, formatWide:
		style.Wide = o.format == formatWide
		out = text(style)
	case formatJSON:
		data, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding the output: %w", err)
		}
		out = string(data) + "\n"
	case formatYAML:
		data, err := yaml.Marshal(value)
		if err != nil {
			return fmt.Errorf("encoding the output: %w", err)
		}
		out = string(data)
	}
	_, err := fmt.Fprint(c.Out, out)
	return err
}

// say tells a person what was done.
func (c *cli) say(format string, args ...any) { fmt.Fprintf(c.Out, format+"\n", args...) }
