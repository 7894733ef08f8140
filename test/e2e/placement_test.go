package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// timeZoneLabel is a node label with the time zone of the node's site.
const timeZoneLabel = "example.com/time-zone"

// pools: one node per zone may be down, and more in all. Every zone starts; one
// whose first node is slow stays there, and the others go on without it.
func (s *scenarios) pools(ctx context.Context, t *testing.T) {
	s.policy(ctx, t, "pools", topsv1.UpgradePolicySpec{
		MaxUnavailable: ptr.To(intstr.FromInt32(4)),
		Pools:          &topsv1.PoolPolicy{TopologyKey: corev1.LabelTopologyZone, MaxUnavailable: intstr.FromInt32(1)},
	})
	zones := s.zones(ctx, t)
	if len(zones) != scenarioZones {
		t.Fatalf("the nodes are in %d zones, want %d", len(zones), scenarioZones)
	}
	f := newDaemonSet(ctx, t, s.Cluster, "pools", underPolicy("pools"))
	o := f.observe(ctx)
	f.halfWay(ctx, "app:2", 0, scenarioZones)
	f.staysAs(ctx, f.uids(ctx))
	slow := zones["zone-a"]
	f.admitOn(ctx, "app:2", s.nodesWithout(slow)...)
	f.isAt(ctx, "app:2", scenarioNodes-len(slow), 1)
	f.staysAs(ctx, f.uids(ctx))
	f.admitOn(ctx, "app:2", slow...)
	f.complete(ctx, "app:2", scenarioNodes)
	for zone, nodes := range zones {
		if most := o.MostOf(nodes...); most != 1 {
			t.Errorf("%d nodes of %s were down at once, want 1", most, zone)
		}
	}
	if most := o.Most(); most != scenarioZones {
		t.Errorf("%d nodes were down at once, want one in each of %d zones", most, scenarioZones)
	}
}

// zones returns the names of the nodes of each zone.
func (s *scenarios) zones(ctx context.Context, t *testing.T) map[string][]string {
	t.Helper()
	var nodes corev1.NodeList
	if err := s.Client.List(ctx, &nodes); err != nil {
		t.Fatal(err)
	}
	zones := map[string][]string{}
	for i := range nodes.Items {
		zone := nodes.Items[i].Labels[corev1.LabelTopologyZone]
		zones[zone] = append(zones[zone], nodes.Items[i].Name)
	}
	return zones
}

// window: nothing starts outside of the window, which opens when it is edited.
func (s *scenarios) window(ctx context.Context, t *testing.T) {
	opens := time.Now().UTC().Add(3 * time.Hour).Truncate(time.Minute)
	s.policy(ctx, t, "window", topsv1.UpgradePolicySpec{Window: windowFrom(opens)})
	f := newDaemonSet(ctx, t, s.Cluster, "window", underPolicy("window"))
	o := f.observe(ctx)
	f.setImage(ctx, "app:2")
	r := f.reaches(ctx, "waiting for the window", func(st *topsv1.DaemonRolloutStatus) bool {
		return int(st.HeldNodes) == scenarioNodes && reasonOf(st, topsv1.RolloutProgressing) == "OutsideMaintenanceWindow"
	})
	wanted := "opens at " + opens.Format("Mon 15:04 MST")
	if c := meta.FindStatusCondition(r.Status.Conditions, topsv1.RolloutProgressing); !strings.Contains(c.Message, wanted) {
		t.Errorf("Progressing says %q, want %q in it", c.Message, wanted)
	}
	f.staysAs(ctx, f.uids(ctx))
	s.editPolicy(ctx, t, "window", func(spec *topsv1.UpgradePolicySpec) { spec.Window = windowFrom(time.Now().UTC().Add(-time.Hour)) })
	f.complete(ctx, "app:2", scenarioNodes)
	atMost(t, o, 1) // 10% of 6
}

// windowFrom is a window of three hours, every day.
func windowFrom(start time.Time) *topsv1.MaintenanceWindow {
	return &topsv1.MaintenanceWindow{Start: start.Format("15:04"), DurationMinutes: 180}
}

// windowOfSite: the window is meant in the time of the node's own site. It is
// open in Shanghai, closed in New York, and a node without a label has UTC.
func (s *scenarios) windowOfSite(ctx context.Context, t *testing.T) {
	open, closed := []string{"node-0001", "node-0004", "node-0005"}, []string{"node-0002", "node-0003", "node-0006"}
	s.label(ctx, t, "Asia.Shanghai", open...)
	s.label(ctx, t, "America.New_York", closed[:2]...) // the last one has no label
	window := windowFrom(time.Now().In(time.FixedZone("Asia/Shanghai", 8*60*60)).Add(-time.Hour))
	window.TimeZoneNodeLabel = timeZoneLabel
	s.policy(ctx, t, "sites", topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromInt32(2)), Window: window})
	f := newDaemonSet(ctx, t, s.Cluster, "sites", underPolicy("sites"))
	o := f.observe(ctx)
	f.setImage(ctx, "app:2")
	f.reaches(ctx, "done in Shanghai", func(st *topsv1.DaemonRolloutStatus) bool {
		return int(st.Updated) == len(open) && int(st.HeldNodes) == len(closed) && reasonOf(st, topsv1.RolloutProgressing) == "OutsideMaintenanceWindow"
	})
	f.staysAs(ctx, f.uids(ctx))
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
	// The sites move: what is a node's time is read from the node.
	s.label(ctx, t, "Asia.Shanghai", closed...)
	f.complete(ctx, "app:2", scenarioNodes)
	atMost(t, o, 2)
	if replaced := o.Replaced(); replaced != scenarioNodes {
		t.Errorf("%d pods were replaced, want each of %d once", replaced, scenarioNodes)
	}
}

// label gives nodes a time zone until the test ends.
func (s *scenarios) label(ctx context.Context, t *testing.T, zone string, nodes ...string) {
	t.Helper()
	for _, name := range nodes {
		s.patchLabel(ctx, t, name, fmt.Sprintf("%q", zone))
		t.Cleanup(func() { s.patchLabel(context.WithoutCancel(ctx), t, name, "null") })
	}
}

func (s *scenarios) patchLabel(ctx context.Context, t *testing.T, node, value string) {
	t.Helper()
	object := &corev1.Node{}
	object.Name = node
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, timeZoneLabel, value))
	if err := s.Client.Patch(ctx, object, patch); err != nil {
		t.Error(err)
	}
}
