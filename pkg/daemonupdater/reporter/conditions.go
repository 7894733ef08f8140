package reporter

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// Conditions patches the pod conditions that differ from the decision. more reports whether some are
// left for the next pass. Failed patches are retried in a later pass. A denied one is no error: it is retried later and
// later. So that a group that ends waits for what may be written soon, it tries all of its pods again when that begins, and a
// webhook that cannot be called is an error then.
func (r Reporter) Conditions(ctx context.Context, p *pass.Pass) (more bool, err error) {
	ends, _ := p.IsReleased(&p.In, &p.Decision)
	if p.Fleet.Reported.BeginsToEnd(ends) {
		r.Denied.Prune(p.Group, nil)
	}
	isDue := func(pod types.UID) bool { return r.Denied.IsDue(p.Group, pod, p.In.Now) }
	patches, more, err := p.Fleet.Reported.PodPatches(&p.In, &p.Decision, isDue)
	if err != nil {
		return false, err
	}
	var failed sync.Map
	err = access.InParallel(ctx, len(patches), func(i int) error {
		of := &patches[i]
		err := r.patch(ctx, of)
		if err == nil {
			r.Denied.Allowed(p.Group, of.UID)
			return nil
		}
		failed.Store(of.Node, true)
		if podreplace.IsDenied(err) || podreplace.IsDeniedOrBroken(err) && !ends {
			r.Denied.Postpone(ctx, p.Group, of.Node, of.UID, err, p.In.Now, "Conditions of a Pod denied", "Pod", klog.KRef(of.Namespace, of.Name))
			return nil
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
