package main

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/preview"
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
	if _, err := l.value(); err != nil {
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
	limit, err := limitOf(ctx, c.terminal, cl, gr, l)
	if err != nil {
		return nil, nil, err
	}
	setAnnotation(wanted, topsv1.AnnotationUpgradeOnly, limit.String())
	setAnnotation(wanted, topsv1.AnnotationUpgradePlan, "")
	return cl, wanted, nil
}

// writeSpec patches the spec of live, if wanted has one, and the limit and the plan of its upgrade.
func writeSpec(ctx context.Context, cl *cluster, live, wanted *unstructured.Unstructured, options ...client.PatchOption) (*unstructured.Unstructured, error) {
	next := live.DeepCopy()
	if spec, is := wanted.Object["spec"]; is {
		next.Object["spec"] = runtime.DeepCopyJSONValue(spec)
	}
	for _, key := range []string{topsv1.AnnotationUpgradeOnly, topsv1.AnnotationUpgradePlan, topsv1.AnnotationAskedBy} {
		setAnnotation(next, key, wanted.GetAnnotations()[key])
	}
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	options = append(options, client.FieldOwner(fieldManager), client.FieldValidation("Strict"))
	return next, explain(cl.Patch(ctx, next, patch, options...), "patch", "")
}

// compareWith reads the current gr, and returns what the wanted one makes of it. It starts over when the gr
// changes meanwhile.
func compareWith(ctx context.Context, out terminal, cl *cluster, wanted *unstructured.Unstructured) (q *preview.Question, err error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind))
	err = retry.OnError(retryBackoff(), denial.IsConflict, func() error {
		if err := cl.read(ctx, "", wanted.GetName(), live); err != nil {
			return err
		}
		next, err := dryRun(ctx, out, cl, live, wanted)
		if err != nil {
			return err
		}
		q, err = questionOf(live, next)
		return err
	})
	return q, err
}

// questionOf returns what happens when a gr becomes the next one.
func questionOf(live, next *unstructured.Unstructured) (*preview.Question, error) {
	q := &preview.Question{Present: &topsv1.GcuResource{}, Wanted: &topsv1.GcuResource{}}
	for from, to := range map[*unstructured.Unstructured]*topsv1.GcuResource{live: q.Present, next: q.Wanted} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(from.Object, to); err != nil {
			return nil, fmt.Errorf("reading gr %s: %w", from.GetName(), err)
		}
	}
	return q, nil
}

// dryRun returns the upgraded gr, validated by the API server if the user may change it.
func dryRun(ctx context.Context, out terminal, cl *cluster, live, wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	next, err := writeSpec(ctx, cl, live, wanted, client.DryRunAll)
	if f, ok := errors.AsType[*failure](err); ok && f.code == exitForbidden {
		fmt.Fprintln(out.ErrOut, "the file is not checked by the API server: you do not have permission to change gr", live.GetName())
		return next, nil // not validated, otherwise the same
	}
	return next, err
}
