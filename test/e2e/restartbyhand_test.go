package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// A person restarts the container engines; the gr of the device plugin is another one. Pods that started
// before have no cards, whatever the nodes offer, and are replaced once, one node at a time.
func TestPodsWithoutCardsAreReplacedAfterARestartByHand(t *testing.T) {
	s, ctx := enter(t)
	name := s.name("byhand")
	s.create(ctx, t, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{
		topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationMaxUnavailable: "1"}}, Spec: topsv1.GcuResourceSpec{GFD: s.component(name, "v1")}})
	s.shows(ctx, t, name, "deployed", func(gr *topsv1.GcuResource) bool { return gr.Status.Phase == topsv1.PhaseRunning })
	crew := s.watchCrew(ctx, t, name)
	before := s.podsOf(ctx, t, name)

	since := s.newestStart(ctx, t, name).Add(time.Second)
	s.eventually(ctx, t, func() error { // new pods start after it, in whole seconds
		if now := time.Now(); now.Before(since) {
			return fmt.Errorf("it is %s, want %s", now, since)
		}
		return nil
	})
	for _, node := range s.nodes {
		s.report(ctx, t, node, &topsv1.HostReport{Time: metav1.NewTime(since), Devices: ptr.To[int32](8),
			Runtime: &topsv1.RuntimeReport{Engine: "containerd", Default: topsv1.DefaultRuntime, StartTime: ptr.To(metav1.NewTime(since)), DefaultSince: ptr.To(metav1.NewTime(since))}})
	}
	var after map[types.UID]bool
	s.eventually(ctx, t, func() error {
		after = s.podsOf(ctx, t, name)
		old := slices.Collect(maps.Keys(after))
		if old = slices.DeleteFunc(old, func(uid types.UID) bool { return !before[uid] }); len(after) != stageNodes || len(old) > 0 {
			return fmt.Errorf("%d pods, %d of which started before", len(after), len(old))
		}
		return nil
	})
	crew.check(t, stageNodes-1)
	(&drivers{stage: s, t: t, name: name}).reaches(ctx, "updated", complete)
	if again := s.podsOf(ctx, t, name); !maps.Equal(after, again) {
		t.Error("pods were replaced again")
	}
}

// newestStart returns when the last of the pods of a component started.
func (s *stage) newestStart(ctx context.Context, t *testing.T, daemonSet string) (newest time.Time) {
	t.Helper()
	var list corev1.PodList
	if err := s.Client.List(ctx, &list, client.InNamespace("kube-system"), client.MatchingLabels{"app.kubernetes.io/name": daemonSet}); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if started := list.Items[i].Status.StartTime; started != nil && started.After(newest) {
			newest = started.Time
		}
	}
	return newest
}

// report stores what the agent of a node reports of its host.
func (s *stage) report(ctx context.Context, t *testing.T, node string, host *topsv1.HostReport) {
	t.Helper()
	u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := client.IgnoreAlreadyExists(s.Client.Create(ctx, u)); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Get(ctx, client.ObjectKeyFromObject(u), u); err != nil {
		t.Fatal(err)
	}
	shown := u.DeepCopy()
	u.Status.Host = host
	if err := s.Client.Status().Patch(ctx, u, client.MergeFrom(shown)); err != nil {
		t.Fatal(err)
	}
}
