package e2e

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// fenceAnnotation triggers the operator and has no meaning.
const fenceAnnotation = "example.com/fence"

// undisturbed waits until the operator has decided on the DaemonSet again, and fails if
// it deleted a pod in before.
func (f *fixture) undisturbed(ctx context.Context, before map[types.UID]bool) {
	f.t.Helper()
	f.fence(ctx)
	now := f.uids(ctx)
	for uid := range before {
		if !now[uid] {
			f.t.Errorf("pod %s of %s was deleted", uid, f.name)
		}
	}
}

// fence returns when the operator has reconciled the DaemonSet in its current state. It
// changes the DaemonSet, which triggers the operator, and then another one without
// pods, to an invalid setting that the rejection repeats: the operator gets both events
// in this order, and a single worker handles them sequentially. It does all that twice,
// because the first time the event of another change, to a pod or a node, may arrive
// after ours.
func (f *fixture) fence(ctx context.Context) {
	f.t.Helper()
	for range 2 {
		f.fences++
		word := fmt.Sprintf("fence-%d", f.fences)
		f.change(ctx, func(ds *appsv1.DaemonSet) { metav1.SetMetaDataAnnotation(&ds.ObjectMeta, fenceAnnotation, word) })
		if f.post == nil {
			f.post = createDaemonSet(ctx, f.t, f.stage, strings.TrimSuffix(f.name, "-"+f.stage.id)+"-fence", rolling(word), func(ds *appsv1.DaemonSet) {
				ds.Spec.Template.Spec.NodeSelector = map[string]string{stageLabel: "none"}
			})
		} else {
			f.post.change(ctx, func(ds *appsv1.DaemonSet) { ds.Annotations[topsv1.AnnotationMaxUnavailable] = word })
		}
		f.post.reaches(ctx, "rejected with this value", func(st *topsv1.DaemonRolloutStatus) bool {
			c := meta.FindStatusCondition(st.Conditions, topsv1.RolloutAccepted)
			return c != nil && strings.Contains(c.Message, fmt.Sprintf("%q", word))
		})
	}
}
