package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/preview/inquiry"
)

// limit is the flags that say what an upgrade is limited to.
type limit struct {
	nodes, components []string
	all               bool
	command           *cobra.Command
}

func (l *limit) bind(c *cli, command *cobra.Command) {
	l.command = command
	command.Flags().StringSliceVar(&l.nodes, "nodes", nil, "only these `nodes`, separated by commas")
	command.Flags().StringSliceVar(&l.components, "components", nil, "only these `components`, by their keys in the spec, such as driver,toolkit")
	command.Flags().BoolVar(&l.all, "all", false, "no limit: removes an earlier limit")
	_ = command.RegisterFlagCompletionFunc("nodes", c.completeLists(func(ctx context.Context, cl *cluster) ([]string, error) {
		return cl.nodeNames(ctx)
	})) // the flags exist
	_ = command.RegisterFlagCompletionFunc("components", c.completeLists(func(context.Context, *cluster) ([]string, error) {
		return component.PerNode(), nil
	}))
}

func namesIn[T any](items []T, name func(*T) string) []string {
	names := make([]string, 0, len(items))
	for i := range items {
		names = append(names, name(&items[i]))
	}
	return names
}

// completeLists offers names for the last of several that are separated by commas.
func (c *cli) completeLists(names func(context.Context, *cluster) ([]string, error)) completion {
	return func(command *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		before := ""
		if i := strings.LastIndex(toComplete, ","); i >= 0 {
			before = toComplete[:i+1]
		}
		found, directive := c.completes(func(ctx context.Context, cl *cluster, _ []string) ([]string, error) { return names(ctx, cl) })(command, args, toComplete)
		for i := range found {
			found[i] = before + found[i]
		}
		return found, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// said reports whether a flag was given.
func (l *limit) said() bool {
	return slices.ContainsFunc([]string{"nodes", "components", "all"}, l.command.Flags().Changed)
}

// cut returns what the flags limit an upgrade to, nil for nothing. An empty list is
// nobody's whole fleet.
func (l *limit) cut() (*daemonset.Cut, error) {
	for name, list := range map[string][]string{"nodes": l.nodes, "components": l.components} {
		if l.command.Flags().Changed(name) && (len(list) == 0 || slices.Contains(list, "")) {
			return nil, misused("--%s has an empty name: name some, or leave it out for all", name)
		}
	}
	switch {
	case l.all && (len(l.nodes) > 0 || len(l.components) > 0):
		return nil, misused("--all and --nodes or --components exclude each other")
	case len(l.nodes) == 0 && len(l.components) == 0:
		return nil, nil
	}
	return &daemonset.Cut{Nodes: l.nodes, Components: l.components}, nil
}

// limitOf returns what an upgrade of a gr to what it would be is limited to: what the
// flags say, or else its annotation, which is that of a file; nil for nothing.
func (c *cli) limitOf(ctx context.Context, cl *cluster, gr *topsv1.GcuResource, l *limit) (*daemonset.Cut, error) {
	cut, err := l.cut()
	if err == nil && !l.said() {
		if cut, err = daemonset.CutOf(gr.Annotations); err != nil {
			return nil, misused("%w", err)
		}
	}
	if err != nil || cut == nil {
		return nil, err
	}
	checked, wrong, err := inquiry.CheckCut(ctx, cl, gr, cut)
	switch {
	case apierrors.IsForbidden(err):
		fmt.Fprintln(c.ErrOut, "the names of nodes are not checked: you may not read nodes")
		return cut, nil
	case err != nil:
		return nil, err
	case wrong != "":
		return nil, misused("%s", wrong)
	}
	return checked, nil
}

// limitWords says what an upgrade is limited to.
func limitWords(cut *daemonset.Cut) string {
	var parts []string
	if len(cut.Nodes) > 0 {
		parts = append(parts, message.Count(len(cut.Nodes), "node")+" ("+message.Names(cut.Nodes)+")")
	}
	if len(cut.Components) > 0 {
		parts = append(parts, message.Count(len(cut.Components), "component")+" ("+strings.Join(cut.Components, ", ")+")")
	}
	return strings.Join(parts, " and ")
}
