package hosttasks

import (
	"context"
	"fmt"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hosttasks/hostapi"
)

// Pull pulls the missing images of a target, like a prepull, at the request of a person on
// the node. It returns when the pull has ended or ctx is done. The result is recorded under
// id and reported like that of any task; a failed pull is repeated under the same id. An
// error means that the pull was not begun, or that its result could not be recorded.
func (w *Worker) Pull(ctx context.Context, id string, target topsv1.OperationTarget) error {
	o, err := w.runner.request(ctx, hostapi.PullOf(w.options.NodeName, id, 1, target))
	if err == nil {
		o.Prepull.LeaveToKubelet, o.Prepull.LeaveUnauthorized = false, false // a request waits for these images
		_, err = w.options.Executor.Execute(ctx, o)
	}
	w.woken.set()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("pulling images: %w", err)
	}
	return nil
}

// Pulled returns the recorded result of the last pull with an id, nil for none.
func (w *Worker) Pulled(id string) *topsv1.HostTaskResult {
	recorded, found := w.runner.recorded(hostapi.PullOf(w.options.NodeName, id, 1, topsv1.OperationTarget{}).Key())
	if !found {
		return nil
	}
	result := hostapi.ResultOf(w.options.NodeName, recorded)
	return &result
}
