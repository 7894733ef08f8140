package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/preview/inquiry"
)

// limit is the flags that limit an upgrade.
type limit struct {
	nodes, components []string
	all               bool
	command           *cobra.Command
}

func (l *limit) bind(c connection, command *cobra.Command) {
	l.command = command
	command.Flags().StringSliceVar(&l.nodes, "nodes", nil, "only these `nodes`, separated by commas")
	command.Flags().StringSliceVar(&l.components, "components", nil, "only these `components`, by their keys in the spec, such as driver,toolkit")
	command.Flags().BoolVar(&l.all, "all", false, "no limit: removes an earlier limit")
	_ = command.RegisterFlagCompletionFunc("nodes", completeLists(c, nodeNames)) // the flags exist
	_ = command.RegisterFlagCompletionFunc("components", completeLists(c, func(context.Context, *cluster) ([]string, error) {
		return component.PerNode(), nil
	}))
}

// given reports whether one of the flags is set. --all=false says no more than leaving it out.
func (l *limit) given() bool {
	return l.all || slices.ContainsFunc([]string{"nodes", "components"}, l.command.Flags().Changed)
}

// value returns the limit, nil for none. An empty list does not mean all.
func (l *limit) value() (*daemonset.Limit, error) {
	for name, list := range map[string][]string{"nodes": l.nodes, "components": l.components} {
		if l.command.Flags().Changed(name) && (len(list) == 0 || slices.Contains(list, "")) {
			return nil, usageError("--%s has an empty name: name some, or leave it out for all", name)
		}
	}
	switch {
	case l.all && (len(l.nodes) > 0 || len(l.components) > 0):
		return nil, usageError("--all and --nodes or --components exclude each other")
	case len(l.nodes) == 0 && len(l.components) == 0:
		return nil, nil
	}
	return &daemonset.Limit{Nodes: l.nodes, Components: l.components}, nil
}

// limitOf returns the validated limit of an upgrade, nil for none: that of the flags, else of
// the annotation of gr, which is as in the file.
func limitOf(ctx context.Context, out terminal, cl *cluster, gr *topsv1.GcuResource, l *limit) (*daemonset.Limit, error) {
	limited, err := l.value()
	if err == nil && !l.given() {
		if limited, err = daemonset.LimitOf(gr.Annotations); err != nil {
			return nil, usageError("%w", err)
		}
	}
	if err != nil || limited == nil {
		return nil, err
	}
	checked, wrong, err := inquiry.CheckLimit(ctx, cl, gr, limited)
	switch {
	case apierrors.IsForbidden(err):
		fmt.Fprintln(out.ErrOut, "the names of nodes are not checked: you do not have permission to read nodes")
		return checked, nil
	case err != nil:
		return nil, err
	case wrong != "":
		return nil, usageError("%s", wrong)
	}
	return checked, nil
}

// setAnnotation sets an annotation, or removes it for "".
func setAnnotation(o *unstructured.Unstructured, key, value string) {
	annotations := o.GetAnnotations()
	if value == "" && annotations[key] == "" {
		return
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	if value == "" {
		delete(annotations, key)
	}
	o.SetAnnotations(annotations)
}
