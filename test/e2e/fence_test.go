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

// fenceAnnotation wakes the operator and means nothing to it.
const fenceAnnotation = "example.com/fence"

// undisturbed fails when a pod of before is deleted, once the operator has decided
// about the DaemonSet again.
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

// fence returns when the operator has looked at the DaemonSet again, as it is now, and
// done what it decided. The DaemonSet is changed, which wakes the operator for it, and
// then another one, which has no pods, to a setting that is refused and repeated in the
// refusal: the operator is told of both in this order, and one worker looks at one after
// the other. All of that twice: the first time it may be told of another change, to a
// pod or a node, after it was told of ours.
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
		f.post.reaches(ctx, "refused by name", func(st *topsv1.DaemonRolloutStatus) bool {
			c := meta.FindStatusCondition(st.Conditions, topsv1.RolloutAccepted)
			return c != nil && strings.Contains(c.Message, fmt.Sprintf("%q", word))
		})
	}
}
