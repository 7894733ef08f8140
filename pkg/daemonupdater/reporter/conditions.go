package reporter

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/denial"
)

// Conditions patches the pod conditions that differ from the decision. more reports whether some are
// left for the next pass. Failed patches are retried in a later pass.
func (r Reporter) Conditions(ctx context.Context, p *pass.Pass) (more bool, err error) {
	patches, more, err := p.Fleet.Reported.PodPatches(&p.In, &p.Decision)
	if err != nil {
		return false, err
	}
	var failed sync.Map
	err = access.InParallel(ctx, len(patches), func(i int) error {
		err := r.patch(ctx, &patches[i])
		if err != nil {
			failed.Store(patches[i].Node, true)
		}
		return err
	})
	if ctx.Err() != nil {
		return more, err // some may not have been tried
	}
	for i := range patches {
		if _, again := failed.Load(patches[i].Node); !again {
			p.Fleet.Reported.Patched(patches[i].Node)
		}
	}
	return more, err
}

// patch patches the conditions of a pod. If the pod is gone or its name belongs to another pod,
// nothing is left to do.
func (r Reporter) patch(ctx context.Context, patch *report.PodPatch) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: patch.Namespace, Name: patch.Name}}
	err := r.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch.Data))
	if err != nil && !denial.IsGoneOrChanged(err) {
		return fmt.Errorf("patching conditions of Pod %s/%s: %w", patch.Namespace, patch.Name, err)
	}
	return nil
}
