package hosttasks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
	"github.com/topsops/gcu-operator/pkg/hosttasks/hostapi"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// pulledTarget is the target in the name of a pull that no operation asked for.
const pulledTarget = "pod"

// Pull pulls the images of a target that are not there, as a prepull does, because the
// person at the node asked for it. It returns when that has ended, or ctx is done. What
// became of it is recorded under id, and reported like that of any task; a pull that
// failed is repeated under its id. The error says that it was not begun: what cannot be
// recorded is not.
func (w *Worker) Pull(ctx context.Context, id string, target topsv1.OperationTarget) error {
	target.Component = pulledTarget
	o, err := w.runner.request(ctx, hostapi.Task{
		Task:    upgradeplan.Task{Host: w.options.NodeName, Target: pulledTarget, Action: upgradeplan.ActionPrepull},
		Attempt: 1, Operation: &topsv1.NodeOperation{ID: id, Targets: []topsv1.OperationTarget{target}},
	})
	if err == nil {
		_, err = w.options.Executor.Execute(ctx, o)
	}
	w.woken.set()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("pulling images: %w", err)
	}
	return nil
}

// Pulled returns what is recorded of the last pull of an id, nil for nothing.
func (w *Worker) Pulled(id string) *topsv1.HostTaskResult {
	recorded := w.options.Executor.Results()
	i := slices.IndexFunc(recorded, func(r task.Result) bool {
		return r.ID == id && strings.HasPrefix(r.Task, pulledTarget+"_")
	})
	if i < 0 {
		return nil
	}
	result := hostapi.ResultOf(w.options.NodeName, recorded[i])
	return &result
}
