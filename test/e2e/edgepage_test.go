package e2e

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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

// On a node a person upgrades everything, takes it back, and holds the node. Then one component of other nodes goes back, and
// forth again on one of them; and the gate goes.
func TestThePagesBringOneNodeBackAlone(t *testing.T) {
	s, ctx := withGate(t)
	s.startManager(ctx, t, "--gate")
	s.startAgents(ctx, t)
	name := s.name("page-node")
	driver := name + "-driver"
	d := s.newHeavy(ctx, t, "page-node", soon(), "2/2", topsv1.GcuResourceSpec{Driver: s.component(driver, "v1"), GFD: s.component(name, "v1")})
	s.kubectl(ctx, t, "annotate", "--overwrite", "gr", name, topsv1.AnnotationUpdateStrategy+"=OTA", topsv1.AnnotationMaxUnavailable+"=3")
	d.reaches(ctx, "known to be good", func(r *topsv1.DaemonRolloutStatus) bool {
		return complete(r) && r.Strategy == "OTA" && r.LastKnownGood != nil && len(r.Settled) == 2
	})
	s.kubectl(ctx, t, "patch", "gr", name, "--type=merge", "-p", `{"spec":{"driver":{"version":"v2"},"gfd":{"version":"v2"}}}`)
	d.reaches(ctx, "awaiting requests", func(r *topsv1.DaemonRolloutStatus) bool {
		return r.HeldNodes == stageNodes && reasonOf(r, topsv1.RolloutProgressing) == topsv1.ReasonAwaitingRequests
	})

	node := s.nodes[0]
	c := s.pageOf(t, "docs/edge-node.md", "OTA: upgrades requested on the node", nil)
	c.at(node)
	c.says(c.next(ctx), "driver", "v1", "v2")
	c.next(ctx)
	d.is(ctx, node, driver, "v2")
	d.is(ctx, node, name, "v2")
	c.next(ctx)
	d.is(ctx, node, driver, "v1")
	d.is(ctx, node, name, "v1")
	c.next(ctx)
	var u topsv1.NodeUpgrade
	if err := s.Client.Get(ctx, client.ObjectKey{Name: node}, &u); err != nil || u.Status.Agent == nil || u.Status.Agent.Hold == nil || u.Status.Agent.Hold.Message != "surgery" {
		t.Errorf("%s is not held: %v, %+v", node, err, u.Status.Agent)
	}
	c.shell(ctx, "node-agent ota release")
	d.givenBack(ctx)
	s.backAlone(ctx, d)
}

// backAlone: the rest of the nodes are upgraded, and two of them brought back.
func (s *stage) backAlone(ctx context.Context, d *drivers) {
	t := d.t
	t.Helper()
	driver, first, second, third := d.name+"-driver", s.nodes[0], s.nodes[1], s.nodes[2]
	s.kubectl(ctx, t, "annotate", "--overwrite", "gr", d.name, topsv1.AnnotationUpdateStrategy+"=AdvancedRollingUpdate")
	pinned := func(nodes ...string) {
		t.Helper()
		d.reaches(ctx, fmt.Sprintf("at v2 but for %v", nodes), func(r *topsv1.DaemonRolloutStatus) bool {
			return int(r.Updated) == stageNodes-len(nodes) && int(r.PinnedNodes) == len(nodes) && r.InFlightNodes == 0
		})
	}
	pinned(first)
	c := s.pageOf(t, "docs/upgrade.md", "One node back, alone", map[string]string{"NODE": second})
	c.next(ctx)
	d.is(ctx, second, driver, "v1")
	c.at(third)
	c.next(ctx)
	d.is(ctx, third, driver, "v1")
	pinned(first, second, third)
	c.says(c.next(ctx), first, second, third)
	c.says(c.next(ctx), d.name, "PINNED")
	c.next(ctx)
	d.is(ctx, second, driver, "v2")
	pinned(first, third)
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
