package nodeupgrade

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// +kubebuilder:rbac:groups=topsops.enflame.com,resources=nodeupgrades/status,verbs=patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// fieldOwner is the field manager of status.operation and status.history.
const fieldOwner = client.FieldOwner("gcu-nodeupgrade")

// strictFields makes the API server reject a write with a field that an older CRD would drop: what is acted on must
// be stored.
const strictFields = client.FieldValidation(metav1.FieldValidationStrict)

// recordWriter stores decisions before they are carried out.
type recordWriter struct {
	client   client.Client
	recorder events.EventRecorder
	metrics  *Metrics
}

// store writes the record of the operation, and nothing else of the NodeUpgrade, at the
// resourceVersion that was read. Log, metrics and events follow the write. Without a change nothing is written, except
// before evictions, which have no precondition of their own that fails once another process has ended the operation.
func (w recordWriter) store(ctx context.Context, o *observation, d operation.Decision) error {
	before, next := o.facts.Record, d.Record
	evicts := slices.ContainsFunc(d.Effects, func(e operation.Effect) bool { return e.Kind == operation.Evict })
	if !evicts && equality.Semantic.DeepEqual(before, next) {
		w.metrics.operations.show(o.upgrade.Name, next.Operation)
		return nil
	}
	after := recordOf(o.upgrade, next)
	patch := client.MergeFromWithOptions(recordOf(o.upgrade, before), client.MergeFromWithOptimisticLock{})
	if err := w.client.Status().Patch(ctx, after, patch, fieldOwner, strictFields); err != nil {
		return fmt.Errorf("storing the operation of NodeUpgrade %s: %w", o.upgrade.Name, err)
	}
	logProgress(ctx, before.Operation, next.Operation)
	w.metrics.operations.show(o.upgrade.Name, next.Operation)
	w.metrics.count(before, next, o.facts.Host)
	for _, e := range operation.EventsOf(before.Operation, next.Operation) {
		w.recorder.Eventf(o.upgrade, nil, e.Type, e.Reason, "Operation", "%s", e.Message)
	}
	return nil
}

// recordOf returns a NodeUpgrade with a record and nothing else: a patch from one to the other is found without
// comparing what a record does not change.
func recordOf(upgrade *topsv1.NodeUpgrade, record operation.Record) *topsv1.NodeUpgrade {
	return &topsv1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{Name: upgrade.Name, ResourceVersion: upgrade.ResourceVersion},
		Status:     topsv1.NodeUpgradeStatus{Operation: record.Operation, History: record.History},
	}
}

// logProgress logs a new phase or task of an operation.
func logProgress(ctx context.Context, before, after *topsv1.OperationStatus) {
	if after == nil || before != nil && before.ID == after.ID && before.Phase == after.Phase && before.Task == after.Task {
		return
	}
	log.FromContext(ctx).Info("Operation of a node progressed", "operation", after.ID, "phase", after.Phase, "task", after.Task,
		"reason", after.Reason, "message", after.Message)
}
