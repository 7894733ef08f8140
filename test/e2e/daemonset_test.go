package e2e

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

// fixture is a DaemonSet of a story.
type fixture struct {
	t     *testing.T
	stage *stage
	name  string
	// fences is the number of fences so far, post the DaemonSet on which they are
	// observed.
	fences int
	post   *fixture
	// admitted are the pods of held versions that should be Ready.
	admitted map[types.UID]bool
}

// newDaemonSet creates an OnDelete DaemonSet with annotations on the nodes of the
// stage, and waits until all its pods are Ready.
func newDaemonSet(ctx context.Context, t *testing.T, s *stage, name string, annotations map[string]string, change ...func(*appsv1.DaemonSet)) *fixture {
	t.Helper()
	f := createDaemonSet(ctx, t, s, name, annotations, change...)
	f.eventually(ctx, func() error {
		live, err := f.get(ctx)
		if err != nil {
			return err
		}
		if live.Status.DesiredNumberScheduled == 0 || live.Status.NumberReady != live.Status.DesiredNumberScheduled {
			return fmt.Errorf("%d of %d pods of %s are Ready", live.Status.NumberReady, live.Status.DesiredNumberScheduled, f.name)
		}
		return nil
	})
	return f
}

// createDaemonSet is like newDaemonSet without waiting for the pods.
func createDaemonSet(ctx context.Context, t *testing.T, s *stage, name string, annotations map[string]string, change ...func(*appsv1.DaemonSet)) *fixture {
	t.Helper()
	name = s.name(name)
	labels := map[string]string{"app": name}
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: annotations},
		Spec: appsv1.DaemonSetSpec{
			Selector:       &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
				Spec:       corev1.PodSpec{NodeSelector: s.selector(), Containers: []corev1.Container{{Name: "main", Image: "app:1"}}},
			},
		},
	}
	for _, f := range change {
		f(ds)
	}
	s.create(ctx, t, ds)
	return &fixture{t: t, stage: s, name: name, admitted: map[types.UID]bool{}}
}

func (f *fixture) eventually(ctx context.Context, check func() error) {
	f.t.Helper()
	f.stage.eventually(ctx, f.t, check)
}

func (f *fixture) get(ctx context.Context) (*appsv1.DaemonSet, error) {
	var ds appsv1.DaemonSet
	return &ds, f.stage.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: f.name}, &ds)
}

// change edits the DaemonSet, and retries on conflicts.
func (f *fixture) change(ctx context.Context, edit func(*appsv1.DaemonSet)) {
	f.t.Helper()
	f.eventually(ctx, func() error {
		ds, err := f.get(ctx)
		if err != nil {
			return err
		}
		edit(ds)
		return f.stage.Client.Update(ctx, ds)
	})
}

// setImage rolls out a new version.
func (f *fixture) setImage(ctx context.Context, image string) {
	f.t.Helper()
	f.change(ctx, func(ds *appsv1.DaemonSet) { ds.Spec.Template.Spec.Containers[0].Image = image })
}

func (f *fixture) pods(ctx context.Context) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := f.stage.Client.List(ctx, &list, client.InNamespace("default"), client.MatchingLabels{"app": f.name})
	return list.Items, err
}

// uids returns the UIDs of the pods that are not being deleted.
func (f *fixture) uids(ctx context.Context) map[types.UID]bool {
	f.t.Helper()
	pods, err := f.pods(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	uids := map[types.UID]bool{}
	for i := range pods {
		if pods[i].DeletionTimestamp == nil {
			uids[pods[i].UID] = true
		}
	}
	return uids
}

func (f *fixture) rollout(ctx context.Context) (*topsv1.DaemonRollout, error) {
	var rollout topsv1.DaemonRollout
	return &rollout, f.stage.Client.Get(ctx, client.ObjectKey{Namespace: "default", Name: f.name}, &rollout)
}

// reaches waits until is returns true for the status of the rollout.
func (f *fixture) reaches(ctx context.Context, what string, is func(*topsv1.DaemonRolloutStatus) bool) *topsv1.DaemonRollout {
	f.t.Helper()
	var last *topsv1.DaemonRollout
	f.eventually(ctx, func() error {
		rollout, err := f.rollout(ctx)
		if err != nil {
			return err
		}
		last = rollout
		if !is(&rollout.Status) {
			return fmt.Errorf("rollout %s is not %s: %+v", f.name, what, rollout.Status)
		}
		return nil
	})
	return last
}

// complete waits until the rollout reports every node at the newest revision, and fails
// if a pod is not.
func (f *fixture) complete(ctx context.Context, image string, nodes int) {
	f.t.Helper()
	newest := f.newestRevision(ctx)
	f.reaches(ctx, "complete", func(s *topsv1.DaemonRolloutStatus) bool {
		return len(s.Targets) == 1 && s.Targets[0].Hash == newest && int(s.Updated) == nodes && len(s.InFlight) == 0 &&
			meta.IsStatusConditionTrue(s.Conditions, topsv1.RolloutComplete)
	})
	pods, err := f.pods(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range pods {
		if got := pods[i].Spec.Containers[0].Image; got != image {
			f.t.Errorf("pod %s on %s runs %s, want %s", pods[i].Name, pods[i].Spec.NodeName, got, image)
		}
	}
}

// newestRevision returns the hash of the newest ControllerRevision, once the
// DaemonSet controller has seen the template.
func (f *fixture) newestRevision(ctx context.Context) string {
	f.t.Helper()
	var newest appsv1.ControllerRevision
	f.eventually(ctx, func() error {
		ds, err := f.get(ctx)
		if err != nil {
			return err
		}
		if ds.Status.ObservedGeneration != ds.Generation {
			return fmt.Errorf("the DaemonSet controller has not seen generation %d of %s", ds.Generation, f.name)
		}
		var list appsv1.ControllerRevisionList
		if err := f.stage.Client.List(ctx, &list, client.InNamespace("default"), client.MatchingLabels{"app": f.name}); err != nil {
			return err
		}
		for _, revision := range list.Items {
			if revision.Revision > newest.Revision {
				newest = revision
			}
		}
		return nil
	})
	return newest.Labels[appsv1.ControllerRevisionHashLabelKey]
}

// observe observes this DaemonSet's pods independently of the operator until the test
// ends.
func (f *fixture) observe(ctx context.Context) *harness.Observer {
	f.t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	f.t.Cleanup(cancel)
	o, err := harness.Observe(ctx, f.stage.Cluster, "app="+f.name)
	if err != nil {
		f.t.Fatal(err)
	}
	return o
}

func reasonOf(s *topsv1.DaemonRolloutStatus, conditionType string) string {
	if c := meta.FindStatusCondition(s.Conditions, conditionType); c != nil {
		return c.Reason
	}
	return ""
}
