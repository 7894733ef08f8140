package watch

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestAFailedPassIsRepeatedSoon(t *testing.T) {
	limiter, group := RateLimiter(), observed.Group{}
	var longest time.Duration
	for range 40 {
		longest = max(longest, limiter.When(group))
	}
	if want := 30 * time.Second; longest != want {
		t.Errorf("a pass that keeps failing is repeated after up to %s, want %s", longest, want)
	}
}

func TestAPullWakesItsGroup(t *testing.T) {
	driver := fixture.PodOn(fixture.DaemonSet("driver"), "a", fixture.OldHash)
	before, after := fixture.NodeUpgrade("a"), fixture.NodeUpgrade("a")
	after.Status.Pulls = []topsv1.ImagePull{{Pod: topsv1.NamespacedRef{Namespace: driver.Namespace, Name: driver.Name, UID: driver.UID}, State: topsv1.PullReady}}
	if !UpgradeChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}) {
		t.Error("a pull that ended changes nothing")
	}
	if UpgradeChanged().Update(event.UpdateEvent{ObjectOld: after, ObjectNew: after.DeepCopy()}) {
		t.Error("a pull that stays as it is wakes the group")
	}
}

func cards(quantity string) corev1.ResourceList {
	return corev1.ResourceList{"enflame.com/gcu": resource.MustParse(quantity)}
}

func TestNodeChanged(t *testing.T) {
	tests := []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"a node that goes offline", func(n *corev1.Node) { fixture.Offline(n) }, true},
		{"another label", func(n *corev1.Node) { n.Labels["gcu"] = "true" }, true},
		{"a label that is gone", func(n *corev1.Node) { n.Labels = nil }, true},
		{"another taint", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: "NoExecute"}} }, true},
		{"another node of the same name", func(n *corev1.Node) { n.UID = "uid-2" }, true},
		{"cards that are offered", func(n *corev1.Node) { n.Status.Allocatable = cards("2") }, true},
		{"not a heartbeat", func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = fixture.Ago(0) }, false},
		{"not another condition", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue})
		}, false},
		{"not an annotation", func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} }, false},
		{"not an image", func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}} }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, after := fixture.Node("a"), fixture.Node("a")
			tt.change(after)
			if got := NodeChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tt.want {
				t.Errorf("passes = %v, want %v", got, tt.want)
			}
			if got := NodeChanged().Update(event.UpdateEvent{ObjectOld: after, ObjectNew: before}); got != tt.want {
				t.Errorf("passes the way back = %v, want %v", got, tt.want)
			}
		})
	}
	t.Run("a node that changes from silent to not ready", func(t *testing.T) {
		silent, notReady := fixture.Offline(fixture.Node("a")), fixture.Offline(fixture.Node("a"))
		notReady.Status.Conditions[0].Status = corev1.ConditionFalse
		if NodeChanged().Update(event.UpdateEvent{ObjectOld: silent, ObjectNew: notReady}) {
			t.Error("passes, though it is offline before and after")
		}
	})
	t.Run("nodes that appear and vanish", func(t *testing.T) {
		if !NodeChanged().Create(event.CreateEvent{Object: fixture.Node("a")}) || !NodeChanged().Delete(event.DeleteEvent{Object: fixture.Node("a")}) {
			t.Error("does not pass")
		}
	})
}

// While a group has no DaemonSet, or no strategy, it is not among the groups of a node that changes.
func TestTheNodesOfAGroupThatWasNoneAreReadAgain(t *testing.T) {
	with := func(strategy, gr string) *appsv1.DaemonSet {
		ds := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "ds"}}
		if strategy != "" {
			ds.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: strategy}
		}
		if gr != "" {
			ds.OwnerReferences = []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: gr, Controller: ptr.To(true)}}
		}
		return ds
	}
	rolled := with("AdvancedRollingUpdate", "")
	alone := observed.GroupOf(rolled)
	for name, tt := range map[string]struct {
		before, after client.Object
		groups        []observed.Group
		all           bool
	}{
		"created":                   {nil, rolled, []observed.Group{alone}, false},
		"changed":                   {rolled, with("OTA", ""), []observed.Group{alone, alone}, false},
		"its strategy is taken":     {rolled, with("", ""), []observed.Group{alone, alone}, true},
		"its strategy is back":      {with("", ""), rolled, []observed.Group{alone, alone}, false},
		"it moves to another group": {rolled, with("OTA", "fleet"), []observed.Group{alone, {Kind: observed.KindGcuResource, Name: "fleet"}}, true},
		"deleted":                   {rolled, nil, []observed.Group{alone, alone}, true},
		"deleted, of a gr":          {with("OTA", "fleet"), nil, []observed.Group{{Kind: observed.KindGcuResource, Name: "fleet"}, alone}, true},
	} {
		w := Groups{Changed: &ChangedNodes{}}
		groups := w.OfDaemonSet(tt.before, tt.after)
		w.Changed.Add(groups[0], "a")
		if names, all := w.Changed.Take(groups[0]); !cmp.Equal(groups, tt.groups) || all != tt.all || !all && !cmp.Equal(names, []string{"a"}) {
			t.Errorf("%s: groups %v, nodes %v, all %v", name, groups, names, all)
		}
		if names, all := w.Changed.Take(groups[0]); len(names) > 0 || all {
			t.Errorf("%s: nodes %v, all %v are left", name, names, all)
		}
	}
}

func TestDaemonSetChanged(t *testing.T) {
	tests := []struct {
		name   string
		change func(*appsv1.DaemonSet)
		want   bool
	}{
		{"another spec", func(ds *appsv1.DaemonSet) { ds.Generation++ }, true},
		{"a spec that was observed", func(ds *appsv1.DaemonSet) { ds.Status.ObservedGeneration-- }, true},
		{"another annotation", func(ds *appsv1.DaemonSet) { fixture.Annotate(ds, topsv1.AnnotationPaused, "true") }, true},
		{"another label", func(ds *appsv1.DaemonSet) { ds.Labels = map[string]string{topsv1.LabelGcuResource: "fleet"} }, true},
		{"another owner", func(ds *appsv1.DaemonSet) { fixture.OfGcuResource(ds) }, true},
		{"a deletion", func(ds *appsv1.DaemonSet) { ds.DeletionTimestamp = &metav1.Time{Time: fixture.Epoch} }, true},
		{"another DaemonSet of the same name", func(ds *appsv1.DaemonSet) { ds.UID = "uid-2" }, true},
		{"not its counts", func(ds *appsv1.DaemonSet) { ds.Status.NumberReady, ds.Status.UpdatedNumberScheduled = 7, 7 }, false},
		{"not its resourceVersion", func(ds *appsv1.DaemonSet) { ds.ResourceVersion = "9" }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, after := fixture.DaemonSet("driver"), fixture.DaemonSet("driver")
			tt.change(after)
			if got := DaemonSetChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tt.want {
				t.Errorf("passes = %v, want %v", got, tt.want)
			}
		})
	}
}

// delays is a queue that records the delays with which groups are added.
type delays struct {
	workqueue.TypedRateLimitingInterface[observed.Group]
	after []time.Duration
}

func (d *delays) AddAfter(_ observed.Group, after time.Duration) { d.after = append(d.after, after) }

func TestAPodThatBecomesReadyWakesItsGroupFirst(t *testing.T) {
	ready := fixture.PodOn(fixture.DaemonSet("driver"), "a", fixture.NewHash)
	starting := ready.DeepCopy()
	starting.Status.Conditions[0].Status = corev1.ConditionFalse
	group := observed.Group{Kind: observed.KindDaemonSet, Namespace: "kube-system", Name: "driver"}
	handle := enqueueSoon(func(context.Context, client.Object) []observed.Group { return []observed.Group{group} })
	tests := []struct {
		name  string
		event func(*delays)
		want  []time.Duration
	}{
		{"a pod that becomes Ready", func(q *delays) {
			handle.Update(t.Context(), event.UpdateEvent{ObjectOld: starting, ObjectNew: ready}, q)
		}, []time.Duration{gatherReady, gatherReady}},
		{"a pod that is Ready no more", func(q *delays) {
			handle.Update(t.Context(), event.UpdateEvent{ObjectOld: ready, ObjectNew: starting}, q)
		}, []time.Duration{gatherRest, gatherRest}},
		{"a new pod", func(q *delays) { handle.Create(t.Context(), event.CreateEvent{Object: starting}, q) }, []time.Duration{gatherRest}},
		{"a pod that is gone", func(q *delays) { handle.Delete(t.Context(), event.DeleteEvent{Object: ready}, q) }, []time.Duration{gatherRest}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := &delays{}
			tt.event(q)
			if diff := cmp.Diff(tt.want, q.after); diff != "" {
				t.Errorf("delays (-want +got):\n%s", diff)
			}
		})
	}
}

// adds is a queue that records the groups that are added.
type adds struct {
	workqueue.TypedRateLimitingInterface[observed.Group]
	names []string
}

func (a *adds) Add(g observed.Group) { a.names = append(a.names, g.Name) }

func TestAChangeOfTheGateWakesAllGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed, q := make(chan struct{}, 1), &adds{}
		unmanaged := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "unmanaged"}}
		w := Groups{Reader: fake.NewFakeClient(fixture.DaemonSet("driver"), unmanaged, fixture.OfGcuResource(fixture.DaemonSet("exporter"))), GateChanged: changed}
		if err := wakes(w.GateChanged, w.underGate)(t.Context(), q); err != nil {
			t.Fatal(err)
		}
		changed <- struct{}{}
		synctest.Wait()
		if slices.Sort(q.names); !slices.Equal(q.names, []string{"driver", "fleet"}) {
			t.Errorf("woken are %v, want driver and fleet", q.names)
		}
	})
}

func TestAReportWakesGroupsWhenItIsAboutARestart(t *testing.T) {
	reports := func(runtime string, restarts *bool) *topsv1.NodeUpgrade {
		u := fixture.NodeUpgrade("a")
		u.Status.Host = &topsv1.HostReport{Time: fixture.Ago(0), Runtime: &topsv1.RuntimeReport{Default: runtime}}
		u.Status.Agent = &topsv1.AgentStatus{RestartsRuntime: restarts}
		return u
	}
	yes, no := true, false
	later := reports("runc", &yes)
	later.Status.Host.Time = fixture.Ago(-time.Minute)
	for _, tt := range []struct {
		name  string
		after *topsv1.NodeUpgrade
		want  bool
	}{
		{"another time", later, false},
		{"a runtime that was restarted", reports("enflame", &yes), true},
		{"an agent that leaves restarts to the administrator", reports("runc", &no), true},
		{"an agent that does not say leaves nothing to them", reports("runc", nil), false},
	} {
		if got := UpgradeChanged().Update(event.UpdateEvent{ObjectOld: reports("runc", &yes), ObjectNew: tt.after}); got != tt.want {
			t.Errorf("%s: passes = %t", tt.name, got)
		}
	}
	restarted := reports("enflame", &yes)
	restarted.Status.Host.Runtime.StartTime, restarted.Status.Host.Devices = ptr.To(fixture.Ago(0)), ptr.To[int32](8)
	if !UpgradeChanged().Update(event.UpdateEvent{ObjectOld: reports("enflame", &yes), ObjectNew: restarted}) {
		t.Error("an engine that began since: does not pass")
	}
}
