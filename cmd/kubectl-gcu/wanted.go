package main

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// readWanted returns the wanted gr: with the spec of the file, if there is one, and the limit
// in annotation upgrade-only.
func readWanted(ctx context.Context, c *cli, args []string, file string, l *limit) (*cluster, *unstructured.Unstructured, error) {
	if file == "" && !l.given() {
		return nil, nil, usageError("say what to upgrade: -f FILE, or without it --nodes, --components or --all")
	}
	wanted := &unstructured.Unstructured{Object: map[string]any{}}
	if file != "" {
		var err error
		if wanted, err = readResource(c.In, file); err != nil {
			return nil, nil, err
		}
		if len(args) > 0 && args[0] != wanted.GetName() {
			return nil, nil, refused("%s holds gr %s, not %s", file, wanted.GetName(), args[0])
		}
		args = []string{wanted.GetName()}
	}
	if _, err := l.cut(); err != nil {
		return nil, nil, err
	}
	cl, err := c.connect()
	if err != nil {
		return nil, nil, err
	}
	gr := &topsv1.GcuResource{}
	if file == "" {
		if gr, err = cl.resource(ctx, args); err != nil {
			return nil, nil, err
		}
		wanted.SetName(gr.Name)
	} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(wanted.Object, gr); err != nil {
		return nil, nil, usageError("reading %s: %w", file, err)
	}
	cut, err := limitOf(ctx, c.terminal, cl, gr, l)
	if err != nil {
		return nil, nil, err
	}
	setOnly(wanted, cut.String())
	return cl, wanted, nil
}

// writeSpec patches the spec of live, if wanted has one, and the limit of its upgrade.
func writeSpec(ctx context.Context, cl *cluster, live, wanted *unstructured.Unstructured, options ...client.PatchOption) (*unstructured.Unstructured, error) {
	next := live.DeepCopy()
	if spec, is := wanted.Object["spec"]; is {
		next.Object["spec"] = runtime.DeepCopyJSONValue(spec)
	}
	setOnly(next, wanted.GetAnnotations()[topsv1.AnnotationUpgradeOnly])
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	options = append(options, client.FieldOwner(fieldManager), client.FieldValidation("Strict"))
	return next, explain(cl.Patch(ctx, next, patch, options...), "patch", "")
}
