package nodes

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

var (
	allNodes = []string{"real-1", "real-2", "real-3"}
	victims  = allNodes[:2]
)

const (
	managerNode = "real-3"
	// dockerNode is the node with dockerd. Its kubelet uses containerd nevertheless.
	dockerNode = "real-3"
)

const (
	grName = "enflame-gcu-resource"
	system = "kube-system"
	// nameLabel has the name of a pod's DaemonSet, which identifies its component.
	nameLabel = "app.kubernetes.io/name"

	driverSet   = "enflame-gcu-driver"
	exporterSet = "enflame-gcu-exporter"
	gfdSet      = "enflame-gcu-feature-discovery"
	pluginSet   = "enflame-gcu-k8s-plugin"
	toolkitSet  = "enflame-gcu-docker-plugin"
	agentSet    = "gcu-node-agent"
	gcu         = "enflame.com/gcu"

	// patience is the timeout of a step.
	patience = 4 * time.Minute
)

// stage is the cluster of a group of stories. The manager runs on managerNode, which
// never loses its link or power; victims are the other nodes.
type stage struct {
	*harness.Cluster
	t   *testing.T
	ctx context.Context
}

// kubectl runs kubectl, which must succeed.
func (s *stage) kubectl(args ...string) string {
	s.t.Helper()
	output, err := s.Kubectl(s.ctx, args...)
	check(s.t, err)
	return output
}

// on runs a program on a node, which must succeed.
func (s *stage) on(node string, argv ...string) string {
	s.t.Helper()
	output, err := s.OnNode(s.ctx, node, nil, argv...)
	check(s.t, err)
	return output
}

// eventually polls is until it returns nil.
func (s *stage) eventually(what string, is func() error) {
	s.t.Helper()
	s.Await(s.ctx, s.t, patience, what, is,
		[]string{"get", "nodes,gr,dro,nu,pdb", "--all-namespaces", "--output=wide"}, []string{"get", "pods", "--all-namespaces", "--output=wide"},
		[]string{"logs", "--namespace=" + system, "deployment/gcu-operator", "--tail=40"})
}

func (s *stage) get(name string, object client.Object) {
	s.t.Helper()
	check(s.t, s.Client.Get(s.ctx, client.ObjectKey{Name: name}, object))
}

func (s *stage) node(name string) *corev1.Node {
	s.t.Helper()
	var node corev1.Node
	s.get(name, &node)
	return &node
}

// upgrade returns the NodeUpgrade of a node; an empty one if there is none.
func (s *stage) upgrade(node string) *topsv1.NodeUpgrade {
	s.t.Helper()
	var nu topsv1.NodeUpgrade
	check(s.t, client.IgnoreNotFound(s.Client.Get(s.ctx, client.ObjectKey{Name: node}, &nu)))
	return &nu
}

// rollout returns the DaemonRollout of the gr; an empty one if there is none.
func (s *stage) rollout() *topsv1.DaemonRollout {
	s.t.Helper()
	var dro topsv1.DaemonRollout
	check(s.t, client.IgnoreNotFound(s.Client.Get(s.ctx, client.ObjectKey{Namespace: system, Name: grName}, &dro)))
	return &dro
}

// pods returns the pods with a label, sorted by name.
func (s *stage) pods(namespace, key, value string) []corev1.Pod {
	s.t.Helper()
	var list corev1.PodList
	check(s.t, s.Client.List(s.ctx, &list, client.InNamespace(namespace), client.MatchingLabels{key: value}))
	return list.Items
}

// podOn returns the pod of a DaemonSet on a node that is not being deleted, nil if there
// is none.
func (s *stage) podOn(set, node string) *corev1.Pod {
	s.t.Helper()
	for _, pod := range s.pods(system, nameLabel, set) {
		if pod.Spec.NodeName == node && pod.DeletionTimestamp == nil {
			return &pod
		}
	}
	return nil
}

// runs returns nil if a pod of a DaemonSet runs a version on a node.
func (s *stage) runs(set, node, version string) error {
	pod := s.podOn(set, node)
	if pod == nil {
		return fmt.Errorf("no pod of %s on %s", set, node)
	}
	if image := pod.Spec.Containers[0].Image; !strings.HasSuffix(image, ":"+version) || !ready(pod) {
		return fmt.Errorf("pod %s on %s has image %s, ready: %t", pod.Name, node, image, ready(pod))
	}
	return nil
}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// managerPod returns the manager's pod.
func (s *stage) managerPod() *corev1.Pod {
	s.t.Helper()
	pods := s.pods(system, nameLabel, "gcu-operator")
	if len(pods) != 1 {
		s.t.Fatalf("there are %d pods of the manager", len(pods))
	}
	return &pods[0]
}

// givenBack returns nil if a node is schedulable as before an upgrade.
func (s *stage) givenBack(node string) error {
	s.t.Helper()
	if spec := s.node(node).Spec; spec.Unschedulable || len(spec.Taints) > 0 {
		return fmt.Errorf("node %s is unschedulable: %t, taints %v", node, spec.Unschedulable, spec.Taints)
	}
	return nil
}

// isRunning returns nil if the gr reports that all its components run.
func (s *stage) isRunning(want string) error {
	var gr topsv1.GcuResource
	if err := s.Client.Get(s.ctx, client.ObjectKey{Name: grName}, &gr); err != nil {
		return err
	}
	if gr.Status.ObservedGeneration != gr.Generation || gr.Status.ReadyResource != want || gr.Status.Phase != "Running" {
		return fmt.Errorf("the gr shows %s %s of generation %d, it has %d", gr.Status.ReadyResource, gr.Status.Phase, gr.Status.ObservedGeneration, gr.Generation)
	}
	return nil
}

// install installs the operator like a user who has the sources, and then lets its node agents see which processes have a card open.
func (s *stage) install() {
	s.t.Helper()
	for _, node := range victims {
		s.kubectl("cordon", node)
	}
	s.make("install")
	s.make("deploy")
	s.kubectl("apply", "--server-side", "-k", "test/nodes/testdata/operator")
	s.letAgentsRestartEngines()
	s.kubectl("rollout", "status", "deployment/gcu-operator", "--namespace="+system, "--timeout=2m")
	for _, node := range victims {
		s.kubectl("uncordon", node)
	}
	s.kubectl("label", "node", canary, canaryLabel+"=true")
}

// installDriver installs a driver directly on a node, as the default gr expects.
func (s *stage) installDriver(node string) {
	s.t.Helper()
	program, err := os.ReadFile(s.Project.Path("bin", "images", "programs", "standin", "standin"))
	check(s.t, err)
	_, err = s.OnNode(s.ctx, node, bytes.NewReader(program), "sh", "-c", "cat >/usr/local/bin/standin && chmod +x /usr/local/bin/standin")
	check(s.t, err)
	s.on(node, "/usr/local/bin/standin", "install-driver")
}

// everywhere calls do for all nodes in parallel.
func (s *stage) everywhere(nodes []string, do func(node string) error) {
	s.t.Helper()
	var done errgroup.Group
	for _, node := range nodes {
		done.Go(func() error { return do(node) })
	}
	check(s.t, done.Wait())
}

func (s *stage) cardsAreOffered() error {
	for _, name := range allNodes {
		offered := s.node(name).Status.Allocatable[gcu]
		if offered.Value() != 2 {
			return fmt.Errorf("node %s offers %s cards", name, offered.String())
		}
	}
	return nil
}

// deploy deploys the example gr with a driver, and starts training on all cards.
func (s *stage) deploy() {
	s.t.Helper()
	s.createGR()
	s.deployed()
}

// createGR creates the example gr with a driver. The engines of all nodes may be restarted at once.
func (s *stage) createGR() {
	s.t.Helper()
	s.kubectl("apply", "-f", "test/nodes/testdata/upgrade-policies.yaml")
	s.kubectl("apply", "-f", "examples/gcu-resource-driver.json")
	s.settings(topsv1.AnnotationUpdateStrategy+"=AdvancedRollingUpdate", fmt.Sprintf("%s=%d", topsv1.AnnotationMaxUnavailable, len(allNodes)), topsv1.AnnotationUpgradePolicy+"=brisk")
}

// deployed waits until all nodes offer their cards, without any help, and starts training on them.
func (s *stage) deployed() {
	s.t.Helper()
	s.eventually("all nodes offer their cards", s.cardsAreOffered)
	s.eventually("the gr shows 6/6 Running", func() error { return s.isRunning("6/6") })
	s.eventually("all nodes are returned to service", func() error {
		for _, node := range allNodes {
			if err := s.givenBack(node); err != nil {
				return err
			}
		}
		if slots := s.rollout().Status.InFlight; len(slots) > 0 {
			return fmt.Errorf("%d slots are taken", len(slots))
		}
		return nil
	})
	s.settings(topsv1.AnnotationMaxUnavailable + "=1")
	s.kubectl("apply", "-f", "test/nodes/testdata/training.yaml")
	s.eventually("all cards are used", s.trains)
}

// settings sets annotations of the gr.
func (s *stage) settings(annotations ...string) {
	s.t.Helper()
	s.kubectl(append([]string{"annotate", "--overwrite", "gr", grName}, annotations...)...)
}

// limitedTo limits upgrades to the given nodes.
func (s *stage) limitedTo(nodes ...string) {
	s.t.Helper()
	s.settings(topsv1.AnnotationUpgradeOnly + "=nodes=" + strings.Join(nodes, ","))
}

// decided waits until the manager has decided on the rollout again, so that all current
// changes have taken effect. The rollout records the last value of this annotation.
func (s *stage) decided() {
	s.t.Helper()
	token := fmt.Sprint(time.Now().UnixNano())
	s.kubectl("annotate", "--overwrite", "--namespace="+system, "dro", grName, topsv1.AnnotationResume+"="+token)
	s.eventually("the rollout was decided on once more", func() error {
		if now := s.rollout().Status.Resumed; now != token {
			return fmt.Errorf("it has acted on %q", now)
		}
		return nil
	})
}

// set changes the version of a component.
func (s *stage) set(component, version string) {
	s.t.Helper()
	s.kubectl("patch", "gr", grName, "--type=merge", "--patch", fmt.Sprintf(`{"spec":{%q:{"version":%q}}}`, component, version))
}

// trains returns nil if a training pod runs on each node.
func (s *stage) trains() error {
	busy := map[string]bool{}
	for _, pod := range s.pods("default", "app", "training") {
		if pod.DeletionTimestamp == nil && ready(&pod) {
			busy[pod.Spec.NodeName] = true
		}
	}
	if len(busy) != len(allNodes) {
		return fmt.Errorf("pods train on %d of %d nodes", len(busy), len(allNodes))
	}
	return nil
}

// cleared removes the shared objects of the stories, and checks that nothing is left.
func (s *stage) cleared() {
	s.t.Helper()
	s.kubectl("delete", "pdb,deployment", "--all", "--wait=true")
	s.kubectl("delete", "gr,gup", "--all", "--wait=true")
	s.eventually("no pod is left", func() error {
		var pods corev1.PodList
		var sets appsv1.DaemonSetList
		if err := s.Client.List(s.ctx, &pods); err != nil {
			return err
		}
		if err := s.Client.List(s.ctx, &sets); err != nil {
			return err
		}
		for _, pod := range pods.Items {
			if pod.Labels[nameLabel] != "gcu-operator" {
				return fmt.Errorf("pod %s/%s is there", pod.Namespace, pod.Name)
			}
		}
		for _, set := range sets.Items {
			if set.Name != agentSet {
				return fmt.Errorf("DaemonSet %s is there", set.Name)
			}
		}
		return nil
	})
	s.nodesAreClean()
}

// nodesAreClean checks that the nodes have no marks of upgrades or of the gr.
func (s *stage) nodesAreClean() {
	s.t.Helper()
	for _, name := range allNodes {
		if err := s.givenBack(name); err != nil {
			s.t.Error(err)
		}
		node := s.node(name)
		for _, marks := range []map[string]string{node.Labels, node.Annotations} {
			for key := range marks {
				if strings.Contains(key, "enflame.com/") {
					s.t.Errorf("node %s still has %s", name, key)
				}
			}
		}
	}
}

// observe observes the pods of the components.
func (s *stage) observe() *harness.Observer {
	s.t.Helper()
	o, err := harness.Observe(s.ctx, s.Cluster, nameLabel+" in ("+strings.Join([]string{driverSet, exporterSet, pluginSet,
		gfdSet, toolkitSet, "enflame-node-feature-discovery"}, ",")+")")
	check(s.t, err)
	return o
}
