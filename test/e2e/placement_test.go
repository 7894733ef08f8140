package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// timeZoneLabel is a node label with the time zone of the node's site.
const timeZoneLabel = "example.com/time-zone"

// One node per zone may be down, and the overall budget is larger. Every zone starts; a
// zone whose first node is slow waits for it, and the others continue.
func TestEachPoolKeepsItsOwnBudgetAndAllOfThemGoOn(t *testing.T) {
	s, ctx := enter(t)
	s.policy(ctx, t, "pools", topsv1.UpgradePolicySpec{
		MaxUnavailable: ptr.To(intstr.FromInt32(4)),
		Pools:          &topsv1.PoolPolicy{TopologyKey: corev1.LabelTopologyZone, MaxUnavailable: intstr.FromInt32(1)},
	})
	zones := s.zones(ctx, t)
	if len(zones) != stageZones {
		t.Fatalf("the nodes are in %d zones, want %d", len(zones), stageZones)
	}
	f := newDaemonSet(ctx, t, s, "pools", s.underPolicy("pools"))
	o := f.observe(ctx)
	f.halfWay(ctx, "app:2", 0, stageZones)
	f.undisturbed(ctx, f.uids(ctx))
	slow := zones["zone-a"]
	f.admitOn(ctx, "app:2", s.nodesWithout(slow)...)
	f.isAt(ctx, "app:2", stageNodes-len(slow), 1)
	f.undisturbed(ctx, f.uids(ctx))
	f.admitOn(ctx, "app:2", slow...)
	f.complete(ctx, "app:2", stageNodes)
	for zone, nodes := range zones {
		if most := o.MostOf(nodes...); most != 1 {
			t.Errorf("%d nodes of %s were down at once, want 1", most, zone)
		}
	}
	if most := o.Most(); most != stageZones {
		t.Errorf("%d nodes were down at once, want one in each of %d zones", most, stageZones)
	}
}

// zones returns the names of the nodes of the stage in each zone.
func (s *stage) zones(ctx context.Context, t *testing.T) map[string][]string {
	t.Helper()
	var nodes corev1.NodeList
	if err := s.Client.List(ctx, &nodes, client.MatchingLabels(s.selector())); err != nil {
		t.Fatal(err)
	}
	zones := map[string][]string{}
	for i := range nodes.Items {
		zone := nodes.Items[i].Labels[corev1.LabelTopologyZone]
		zones[zone] = append(zones[zone], nodes.Items[i].Name)
	}
	return zones
}

// windowFrom returns a daily window of three hours.
func windowFrom(start time.Time) *topsv1.MaintenanceWindow {
	return &topsv1.MaintenanceWindow{Start: start.Format("15:04"), DurationMinutes: 180}
}

// The window is in the time zone of each node's site: open in Shanghai, closed in New
// York, and UTC for a node without a label.
func TestTheWindowIsMeantInTheTimeOfTheNodesSite(t *testing.T) {
	s, ctx := enter(t)
	open, closed := []string{s.nodes[0], s.nodes[3], s.nodes[4]}, []string{s.nodes[1], s.nodes[2], s.nodes[5]}
	s.inTimeZone(ctx, t, "Asia.Shanghai", open...)
	s.inTimeZone(ctx, t, "America.New_York", closed[:2]...) // the last node has no label
	window := windowFrom(time.Now().In(time.FixedZone("Asia/Shanghai", 8*60*60)).Add(-time.Hour))
	window.TimeZoneNodeLabel, window.TimeZone = timeZoneLabel, "Asia/Nowhere"
	s.policy(ctx, t, "sites", topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(2)), Window: window})
	s.judged(ctx, t, "sites", topsv1.ConditionStalled)
	s.editPolicy(ctx, t, "sites", func(spec *topsv1.UpgradePolicySpec) { spec.Window.TimeZone = "" })
	s.judged(ctx, t, "sites", topsv1.PolicyAccepted)
	f := newDaemonSet(ctx, t, s, "sites", s.underPolicy("sites"))
	o := f.observe(ctx)
	f.setImage(ctx, "app:2")
	f.reaches(ctx, "done in Shanghai", func(st *topsv1.DaemonRolloutStatus) bool {
		return int(st.Updated) == len(open) && int(st.HeldNodes) == len(closed) && reasonOf(st, topsv1.RolloutProgressing) == "OutsideMaintenanceWindow"
	})
	f.undisturbed(ctx, f.uids(ctx))
	for _, node := range open {
		if image := f.on(ctx, node).Spec.Containers[0].Image; image != "app:2" {
			t.Errorf("%s, whose window is open, runs %s", node, image)
		}
	}
	for _, node := range closed {
		if image := f.on(ctx, node).Spec.Containers[0].Image; image != "app:1" {
			t.Errorf("%s, whose window is closed, runs %s", node, image)
		}
	}
	// The time zone is read from the node, so a changed label takes effect.
	s.inTimeZone(ctx, t, "Asia.Shanghai", closed...)
	f.complete(ctx, "app:2", stageNodes)
	atMost(t, o, 2)
	if replaced := o.Replaced(); replaced != stageNodes {
		t.Errorf("%d pods were replaced, want each of %d once", replaced, stageNodes)
	}
}

// inTimeZone labels nodes with a time zone until the test ends.
func (s *stage) inTimeZone(ctx context.Context, t *testing.T, zone string, nodes ...string) {
	t.Helper()
	for _, name := range nodes {
		s.patchLabel(ctx, t, name, fmt.Sprintf("%q", zone))
		t.Cleanup(func() { s.patchLabel(context.WithoutCancel(ctx), t, name, "null") })
	}
}

func (s *stage) patchLabel(ctx context.Context, t *testing.T, node, value string) {
	t.Helper()
	object := &corev1.Node{}
	object.Name = node
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, timeZoneLabel, value))
	if err := s.Client.Patch(ctx, object, patch); err != nil {
		t.Error(err)
	}
}
