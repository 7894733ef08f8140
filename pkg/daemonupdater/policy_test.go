package daemonupdater

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestReconcileReadsThePolicy(t *testing.T) {
	c := newCluster(t, func(ds *appsv1.DaemonSet) { fixture.UnderPolicy(ds) })
	c.mustReconcile()
	c.wantDeletions()
	if got := fixture.Words(c.stored().Status)["Accepted"]; got != "False/UpgradePolicyNotFound" {
		t.Errorf("Accepted is %s, want False/UpgradePolicyNotFound", got)
	}
	c.create(fixture.PolicyWith(topsv1.UpgradePolicySpec{MaxUnavailable: ptr.To(intstr.FromString("50%"))}))
	c.now = c.now.Add(reportInterval)
	c.mustReconcile()
	if got := c.stored().Status; len(c.deletions) != 2 || got.MaxUnavailable != 2 || fixture.Words(got)["Accepted"] != "True/SettingsAccepted" {
		t.Errorf("deletions %v, at most %d, %v, want half of three nodes", c.deletions, got.MaxUnavailable, fixture.Words(got))
	}
}

func TestAPolicyWakesTheGroupsThatNameIt(t *testing.T) {
	c := newCluster(t, func(ds *appsv1.DaemonSet) { fixture.UnderPolicy(ds) })
	silver, unnamed := fixture.DaemonSet("silver"), fixture.DaemonSet("unnamed")
	member, wrong := fixture.OfGcuResource(fixture.UnderPolicy(fixture.DaemonSet("member"))), fixture.Annotate(fixture.UnderPolicy(fixture.DaemonSet("wrong")), topsv1.AnnotationPaused, "perhaps")
	restarts := fixture.UnderPolicy(fixture.DaemonSet("restarts")) // without a strategy, only runtimes are restarted
	delete(restarts.Annotations, topsv1.AnnotationUpdateStrategy)
	for _, ds := range []*appsv1.DaemonSet{fixture.Annotate(silver, topsv1.AnnotationUpgradePolicy, "silver"), unnamed, member, wrong, restarts} {
		c.create(ds)
	}
	got := c.reconciler.watches().UnderPolicy(context.Background(), fixture.PolicyWith(topsv1.UpgradePolicySpec{}))
	want := []observed.Group{{Kind: "DaemonSet", Namespace: "kube-system", Name: "driver"}, {Kind: "GcuResource", Name: "fleet"}, {Kind: "DaemonSet", Namespace: "kube-system", Name: "restarts"}}
	byName := cmpopts.SortSlices(func(a, b observed.Group) bool { return a.Name < b.Name })
	if diff := cmp.Diff(want, got, byName); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if all := c.reconciler.watches().OnNode(context.Background(), fixture.Node("a")); len(all) != 5 {
		t.Errorf("a node wakes %v, want the five groups with a strategy", all)
	}
}
