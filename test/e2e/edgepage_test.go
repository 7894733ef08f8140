package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// The commands of docs/edge-node.md, and of the section of docs/upgrade.md about one node, which a person types on the node.

// at has node-agent ota call the agent of a node.
func (c *commands) at(node string) {
	c.t.Helper()
	agent, err := c.Project.Program("node-agent")
	if err != nil {
		c.t.Fatal(err)
	}
	c.program("node-agent", "exec "+agent+" \"$@\" --socket "+c.socket(node))
}

// socket is that of the agent of a node.
func (s *stage) socket(node string) string {
	return filepath.Join(s.agents.Host(node).Root, "ota.sock")
}

// A person asks for the images of a pod, and for its upgrade, as with OpenYurt.
func TestThePageUpgradesAPodByThePathsOfOpenYurt(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "page-paths", ota())
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Annotations[topsv1.AnnotationPaused] = "true"
		ds.Spec.Template.Spec.Containers[0].Image = "app:2"
	})
	f.allHave(ctx, corev1.ConditionTrue)
	node := s.nodes[2]
	s.startAgents(ctx, t, node)
	own, before := f.podOn(ctx, node), f.uids(ctx)
	c := s.pageOf(t, "docs/edge-node.md", "OpenYurt's paths", map[string]string{"NODE": node, "NAMESPACE": own.Namespace, "POD": own.Name,
		"/run/gcu-node-agent/ota.sock": s.socket(node)})
	said := strings.Fields(c.block(ctx))
	if at := slices.Index(said, own.Name); at < 1 || said[at-1] != own.Namespace || said[at+1] != "True" {
		t.Errorf("pod %s is not one that needs an upgrade: %v", own.Name, said)
	}
	c.says(c.block(ctx), `"name":"`+own.Name+`"`, "PodNeedUpgrade", "Start updating pod default/"+own.Name)
	f.imageReady(ctx, own)
	s.taskReaches(ctx, f, node, topsv1.TaskWaiting, "Paused")
	f.undisturbed(ctx, before)
	f.change(ctx, func(ds *appsv1.DaemonSet) { delete(ds.Annotations, topsv1.AnnotationPaused) })
	s.taskReaches(ctx, f, node, topsv1.TaskDone, "Replaced")
	f.comesBack(ctx, node, "app:2", own)
	delete(before, own.UID)
	f.undisturbed(ctx, before)

	c = s.pageOf(t, "docs/edge-node.md", "The node agent", map[string]string{"NODE": node})
	c.says(c.block(ctx), `"driverVersion":"1.0.0"`, `"engine":"containerd"`)
}

// imageReady waits until the images of the newest revision are reported to be on the node of a pod.
func (f *fixture) imageReady(ctx context.Context, pod *corev1.Pod) {
	f.t.Helper()
	f.eventually(ctx, func() error {
		var now corev1.Pod
		if err := f.stage.Client.Get(ctx, client.ObjectKeyFromObject(pod), &now); err != nil {
			return err
		}
		if !slices.ContainsFunc(now.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == topsv1.PodImageReady && c.Status == corev1.ConditionTrue && c.Reason == topsv1.ReasonPullImageSuccess
		}) {
			return fmt.Errorf("conditions of pod %s are %+v", pod.Name, now.Status.Conditions)
		}
		return nil
	})
}

// On a node a person upgrades everything, withdraws the next request, and holds the node.
func TestThePageUpgradesAndHoldsANode(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "page-node", ota())
	f.setImage(ctx, "app:2")
	f.allHave(ctx, corev1.ConditionTrue)
	node, before := s.nodes[3], f.uids(ctx)
	s.startAgents(ctx, t, node)
	own := f.podOn(ctx, node)
	c := s.pageOf(t, "docs/edge-node.md", "OTA: upgrades requested on the node", nil)
	c.at(node)
	c.shows(ctx, f.name, "1         2           yes        OTA")
	c.next(ctx)
	f.comesBack(ctx, node, "app:2", own)
	delete(before, own.UID)
	f.undisturbed(ctx, before)

	own = f.podOn(ctx, node)
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Annotations[topsv1.AnnotationPaused] = "true"
		ds.Spec.Template.Spec.Containers[0].Image = "app:3"
	})
	f.allHave(ctx, corev1.ConditionTrue)
	if code, text := post(ctx, t, s.agents.Of(node).URL+"/v1/upgrade"); code != http.StatusAccepted {
		t.Fatalf("the request is answered with %d %s", code, text)
	}
	s.taskReaches(ctx, f, node, topsv1.TaskWaiting, "Paused")
	c.next(ctx)
	s.taskReaches(ctx, f, node, topsv1.TaskWithdrawn, "Withdrawn")
	f.change(ctx, func(ds *appsv1.DaemonSet) { delete(ds.Annotations, topsv1.AnnotationPaused) })

	c.next(ctx)
	var u topsv1.NodeUpgrade
	if err := s.Client.Get(ctx, client.ObjectKey{Name: node}, &u); err != nil || u.Status.Agent == nil || u.Status.Agent.Hold == nil || u.Status.Agent.Hold.Message != "surgery" {
		t.Errorf("%s is not held: %v, %+v", node, err, u.Status.Agent)
	}
	f.undisturbed(ctx, map[types.UID]bool{own.UID: true})
}

// One component of two nodes goes back, and on one of them forth again; then the gate goes.
func TestThePagesBringOneNodeBackAlone(t *testing.T) {
	s, ctx := withGate(t)
	s.startManager(ctx, t, "--gate")
	first, second := s.nodes[0], s.nodes[1]
	s.startAgents(ctx, t)
	name, driver := s.name("page-node"), s.name("page-node")+"-driver"
	d := s.newHeavy(ctx, t, "page-node", soon(), "1/1", topsv1.GcuResourceSpec{Driver: s.component(driver, "v1")})
	s.kubectl(ctx, t, "annotate", "--overwrite", "gr", name, topsv1.AnnotationMaxUnavailable+"=6")
	d.reaches(ctx, "known to be good", func(r *topsv1.DaemonRolloutStatus) bool {
		return complete(r) && r.LastKnownGood != nil && len(r.Settled) == 1
	})
	d.upgrade(ctx, "v2")
	pinned := func(nodes int) {
		t.Helper()
		d.reaches(ctx, fmt.Sprintf("at v2 but for %d nodes", nodes), func(r *topsv1.DaemonRolloutStatus) bool {
			return int(r.Updated) == stageNodes-nodes && int(r.PinnedNodes) == nodes && r.InFlightNodes == 0
		})
	}
	pinned(0)
	c := s.pageOf(t, "docs/upgrade.md", "Rolling back one node", map[string]string{"NODE": first})
	c.next(ctx)
	d.is(ctx, first, driver, "v1")
	c.at(second)
	c.next(ctx)
	d.is(ctx, second, driver, "v1")
	pinned(2)
	c.shows(ctx, first, second)
	c.shows(ctx, name, "PINNED")
	c.next(ctx)
	d.is(ctx, first, driver, "v2")
	pinned(1)
	d.givenBack(ctx)

	c = s.pageOf(t, "docs/install.md", "The gate", nil)
	c.in = s.Project.Root
	c.block(ctx)
	if left := s.kubectl(ctx, t, "get", "mutatingadmissionpolicies,mutatingadmissionpolicybindings", "--output=name"); left != "" {
		t.Errorf("left are %s", left)
	}
}

// is waits until the pod of a component on a node has a version, and the node is in service.
func (d *drivers) is(ctx context.Context, node, component, version string) {
	d.t.Helper()
	d.eventually(ctx, d.t, func() error {
		pod := d.podsByNode(ctx, "app.kubernetes.io/name", component)[node]
		if len(pod.Spec.Containers) == 0 || !hasTag(pod.Spec.Containers[0].Image, version) || !isReady(&pod) {
			return fmt.Errorf("%s of %s is %+v, want %s", component, node, pod.Spec.Containers, version)
		}
		if cordoned, _ := d.closed(ctx, d.t); slices.Contains(cordoned, node) {
			return fmt.Errorf("%s is cordoned", node)
		}
		return nil
	})
}
