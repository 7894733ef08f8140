package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// Formats of -o.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

var formats = []string{formatTable, formatWide, formatJSON, formatYAML}

// terminal is the input and output of a command.
type terminal struct{ genericiooptions.IOStreams }

// style returns the style of text on this output.
func (t terminal) style() display.Style {
	return display.Style{Now: time.Now(), Color: t.onTerminal() && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (t terminal) onTerminal() bool {
	f, ok := plaintext.Unwrap(t.Out).(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// width returns the width of the terminal in columns, 80 if unknown.
func (t terminal) width() int {
	if f, ok := plaintext.Unwrap(t.Out).(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 80
}

// print writes a value in the format of -o; text renders tables.
func (t terminal) print(o output, value any, text func(display.Style) string) error {
	if o.format == formatTable || o.format == formatWide {
		style := t.style()
		style.Wide = o.format == formatWide
		_, err := fmt.Fprint(plaintext.Unwrap(t.Out), plaintext.Text(text(style), style.Colors()...))
		return err
	}
	encode := plaintext.JSON
	if o.format == formatYAML {
		encode = plaintext.YAML
	}
	out, err := encode(value)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(t.Out, out)
	return err
}

// say prints a line.
func (t terminal) say(format string, args ...any) {
	fmt.Fprintln(t.Out, plaintext.Line(fmt.Sprintf(format, args...)))
}

// output is the flag -o; also are additional formats of a command.
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
			return usageError("-o %s is not one of %s", o.format, strings.Join(all, ", "))
		}
		return nil
	}
}

// list is a list in JSON or YAML.
type list[T any] struct {
	Items []T `json:"items"`
}
