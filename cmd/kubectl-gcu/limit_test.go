package main

import (
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestUpgradeThatIsLimited(t *testing.T) {
	s := newSite(t)
	gr := s.plannable("cut")
	only := func(want, version string) {
		t.Helper()
		s.read(gr)
		if got := gr.Annotations[topsv1.AnnotationUpgradeOnly]; got != want || gr.Spec.Driver.Version != version || gr.Annotations[topsv1.AnnotationUpdateStrategy] == "" {
			t.Errorf("it is limited to %q with version %s and annotations %v, want %q and %s", got, gr.Spec.Driver.Version, gr.Annotations, want, version)
		}
	}
	next := grFile("cut", "1.1")
	s.says(s.gcuWith(t.Context(), next, "upgrade", "-f", "-", "--nodes", "cut-1,cut-2", "--components", "driver"), exitOK, "driver.version: 1.0 -> 1.1",
		"limited to 2 nodes (cut-1, cut-2) and 1 component (driver)", "gr cut is changed")
	only("nodes=cut-1,cut-2;components=driver", "1.1")
	onlyOursWrote(t, gr, topsv1.AnnotationUpgradeOnly)
	s.says(s.gcuWith(t.Context(), next, "upgrade", "-f", "-", "--nodes", "cut-1", "--nodes", "cut-2", "--components", "driver"), exitOK, "already has this spec, limited to 2 nodes")
	s.says(s.gcu("upgrade", "cut", "--nodes", "cut-3"), exitOK, "limited to 1 node (cut-3)")
	only("nodes=cut-3", "1.1")
	s.says(s.gcuWith(t.Context(), strings.Replace(next, "{name: cut}", "{name: cut, annotations: {"+topsv1.AnnotationUpgradeOnly+": nodes=cut-3}}", 1),
		"upgrade", "-f", "-", "--all=false"), exitOK, "limited to 1 node (cut-3)")
	only("nodes=cut-3", "1.1")
	s.says(s.gcu("upgrade", "cut", "--all"), exitOK, "no longer limited to 1 node (cut-3)")
	only("", "1.1")
	s.says(s.gcu("upgrade", "cut", "--all"), exitOK, "already has this spec, and is not limited")
	limited := strings.Replace(grFile("cut", "1.2"), "{name: cut}", "{name: cut, annotations: {"+topsv1.AnnotationUpgradeOnly+": nodes=cut-2}}", 1)
	s.says(s.gcuWith(t.Context(), limited, "upgrade", "-f", "-"), exitOK, "limited to 1 node (cut-2)")
	only("nodes=cut-2", "1.2")
	s.says(s.gcuWith(t.Context(), grFile("cut", "1.3"), "upgrade", "-f", "-"), exitOK, "no longer limited to 1 node (cut-2)")
	only("", "1.3")
	s.says(s.gcuWith(t.Context(), limited, "upgrade", "-f", "-", "--all"), exitOK, "driver.version: 1.3 -> 1.2")
	only("", "1.2")

	s.says(s.gcuWith(t.Context(), strings.Replace(limited, "nodes=", "racks=", 1), "upgrade", "-f", "-"), exitUsage, "upgrade-only")
	s.says(s.gcuWith(t.Context(), grFile("cut", "9"), "upgrade", "-f", "-", "--nodes", "absent"), exitUsage, "there is no node absent")
	s.says(s.gcu("upgrade", "cut"), exitUsage, "-f FILE, or without it --nodes, --components or --all")
	s.says(s.gcu("upgrade", "absent", "--all"), exitRefused, "there is no gr absent")
	only("", "1.2")
}

// The other name of the device plugin (decision D2) is that of a component for a user, too, whose nodes cannot be checked.
func TestALimitToThePluginByAUserWhoMayNotReadNodes(t *testing.T) {
	s := newSite(t)
	gr := s.gr("plugged", topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate")
	narrow := s.as("limit-narrow", rbacv1.PolicyRule{APIGroups: []string{topsv1.GroupVersion.Group}, Resources: []string{"gcuresources", "daemonrollouts"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch"}})
	next := strings.Replace(grFile("plugged", "1.1"), "spec: {", "spec: {devicePlugin: {}, ", 1)
	a := s.says(narrow.gcuWith(t.Context(), next, "upgrade", "-f", "-", "--nodes", "absent", "--components", "plugin"), exitOK, "limited to 1 node (absent) and 1 component (devicePlugin)")
	if !strings.Contains(a.err, "the names of nodes are not checked") {
		t.Errorf("it says %q", a.err)
	}
	if s.read(gr); gr.Annotations[topsv1.AnnotationUpgradeOnly] != "nodes=absent;components=devicePlugin" {
		t.Errorf("it is limited to %q", gr.Annotations[topsv1.AnnotationUpgradeOnly])
	}
	s.says(narrow.gcu("upgrade", "plugged", "--nodes", "absent", "--components", "gfd"), exitUsage, `no component "gfd"`)
}

// halfway creates a gr whose driver has its newest revision on node NAME-1 of three, and a rollout with this reason of its
// condition Progressing. One node has failed, and one is pinned; "" for none.
func (s *site) halfway(name, reason, failed, pinned string) *topsv1.GcuResource {
	s.t.Helper()
	gr := s.plannable(name)
	var sets appsv1.DaemonSetList
	var pod corev1.Pod
	if err := s.List(s.t.Context(), &sets, client.MatchingLabels{topsv1.LabelGcuResource: name}); err != nil || len(sets.Items) != 1 {
		s.t.Fatal(err, sets.Items)
	}
	set := &sets.Items[0]
	if err := s.Get(s.t.Context(), client.ObjectKey{Namespace: set.Namespace, Name: name + "-1"}, &pod); err != nil {
		s.t.Fatal(err)
	}
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = "new"
	if err := s.Update(s.t.Context(), &pod); err != nil {
		s.t.Fatal(err)
	}
	next := &appsv1.ControllerRevision{Revision: 2, ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name + "-new", Labels: pod.Labels, OwnerReferences: pod.OwnerReferences}}
	next.Data.Raw = []byte(`{"spec":{}}`)
	s.create(next)
	status := topsv1.DaemonRolloutStatus{Revision: "r", Conditions: []metav1.Condition{{Type: topsv1.RolloutProgressing, Status: metav1.ConditionFalse, Reason: reason,
		Message: "so it is", LastTransitionTime: metav1.Now()}}}
	driver := set.Namespace + "/" + set.Name
	if failed != "" {
		status.Failed = append(status.Failed, topsv1.NodeNote{Node: failed, Reason: "CrashLooping", Since: metav1.Now(),
			Targets: []topsv1.RevisionTarget{{DaemonSet: driver, Hash: "new"}}})
	}
	if pinned != "" {
		status.Pinned = append(status.Pinned, topsv1.NodePin{Node: pinned, DaemonSet: driver, Hash: "old", From: "new", Reason: "Undone", Since: metav1.Now()})
	}
	s.rollout(name, status)
	return gr
}

func TestAWaitIsOnlyForWhatIsWithinTheLimit(t *testing.T) {
	const complete = "the limited upgrade is complete"
	for _, tt := range []struct{ name, gr, reason, failed, pinned, says string }{
		{"ends although a node outside of it is busy", "limit-busy", "NodeBusy", "", "", complete},
		{"goes on while a node within it is not upgraded", "limit-old", "NodeBusy", "", "", "timed out after 5s"},
		{"ends although a node outside of it has failed", "limit-failed", topsv1.ReasonNodesFailed, "limit-failed-2", "", complete},
		{"ends although a node outside of it is pinned", "limit-pinned", topsv1.ReasonNodesPinned, "", "limit-pinned-3", complete},
		{"fails with a node within it", "limit-inside", "NodeBusy", "limit-inside-2", "", "node limit-inside-2 remains: CrashLooping"},
		{"says what to do when the rollout stops", "limit-stopped", topsv1.ReasonNodesFailed, "limit-stopped-2", "", "Halted: so it is; roll out another revision"},
		{"does not end with another condition than one about nodes", "limit-task", topsv1.ReasonGlobalTaskFailed, "", "", "GlobalTaskFailed: so it is"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			s.halfway(tt.gr, tt.reason, tt.failed, tt.pinned)
			await := func(node string) answer {
				return s.gcu("upgrade", tt.gr, "--nodes", tt.gr+node, "--wait", "--timeout", "5s")
			}
			if tt.says == complete {
				s.says(await("-1"), exitOK, tt.says)
			} else {
				s.says(await("-2"), exitNotYet, tt.says)
			}
		})
	}
}

// begin starts an upgrade with --wait, and returns when an annotation of its gr has a value.
func (s *site) begin(gr *topsv1.GcuResource, annotation, value string, args ...string) chan answer {
	s.t.Helper()
	done := make(chan answer, 1)
	go func() {
		done <- s.gcuWith(context.WithoutCancel(s.t.Context()), "", append(args, "--wait", "--timeout", "20s")...)
	}()
	s.eventually("the annotation", func() bool { s.read(gr); return gr.Annotations[annotation] == value })
	return done
}

// Only annotations change, so the generation stays.
func TestAWaitEndsWhenAnotherClientChangesTheLimit(t *testing.T) {
	s := newSite(t)
	gr := s.halfway("swapped", "NodeBusy", "", "")
	for now, says := range map[string]string{"nodes=swapped-1": "another client limited the upgrade of gr swapped to 1 node (swapped-1)", "": "another client removed the limit of the upgrade of gr swapped"} {
		done := s.begin(gr, topsv1.AnnotationUpgradeOnly, "nodes=swapped-2", "upgrade", "swapped", "--nodes", "swapped-2")
		s.annotate(gr, topsv1.AnnotationUpgradeOnly, now)
		s.says(<-done, exitNotYet, says)
	}
}

func TestAWaitEndsWhenTheGcuResourceIsDeleted(t *testing.T) {
	s := newSite(t)
	gr := s.halfway("gone", "NodeBusy", "", "")
	gr.Finalizers = []string{"test.enflame.com/stays"}
	if err := s.Update(t.Context(), gr); err != nil {
		t.Fatal(err)
	}
	upgrade := s.begin(gr, topsv1.AnnotationUpgradeOnly, "nodes=gone-2", "upgrade", "gone", "--nodes", "gone-2")
	watch, stop := s.start("status", "gone", "--watch", "--timeout", "20s")
	defer stop()
	if err := s.Delete(t.Context(), gr); err != nil {
		t.Fatal(err)
	}
	s.says(<-upgrade, exitNotYet, "gr gone is being deleted")
	s.read(gr)
	gr.Finalizers = nil
	if err := s.Update(t.Context(), gr); err != nil {
		t.Fatal(err)
	}
	if code := <-watch.code; code != exitNotYet || !strings.Contains(watch.screen.String(), "gr gone was deleted") {
		t.Errorf("status --watch ends with %d:\n%s", code, watch.screen.String())
	}
	again := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{UID: "another", Generation: 1}}
	if err := (&startedUpgrade{name: "gone", uid: gr.UID, generation: 1}).overtaken(again); err == nil || !strings.Contains(err.Error(), "another client created it again") {
		t.Errorf("another gr of the name: %v", err)
	}
}

func TestAWaitEndsWhenAnotherClientEndsThePlan(t *testing.T) {
	s := newSite(t)
	gr := s.plannable("ended")
	plan := s.planOf(grFile("ended", "1.1"))
	done := s.begin(gr, topsv1.AnnotationUpgradePlan, plan.Name, "upgrade", "--plan", s.fileOf(plan))
	s.annotate(gr, topsv1.AnnotationUpgradePlan, "")
	gr.Status.ObservedGeneration = gr.Generation
	if err := s.Status().Update(t.Context(), gr); err != nil {
		t.Fatal(err)
	}
	s.says(<-done, exitNotYet, "gr ended no longer follows UpgradePlan "+plan.Name)
}
