package nodes

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/harness"
)

const (
	// lossesPerRollout is the maximum number of power losses of a node in one rollout.
	lossesPerRollout = 4
	// noticedEvery: one in this many losses lasts until the node is NotReady; after the
	// others the power is back earlier.
	noticedEvery = 4
	// mostRollouts is the maximum number of rollouts to hit tasks that earlier ones missed.
	mostRollouts = 8
)

// lightImages are the images of components whose pods usually come back with the device
// before the operation reaches them, so that their tasks are already done.
var lightImages = map[string]string{
	"exporter_replace": "artifact.enflame.cn/enflame_docker_images/enflame/gcu-exporter:latest",
	"gfd_replace":      "artifact.enflame.cn/galaxy_docker_hub/gcu/gcu-gfd:latest",
}

func isLight(task string) bool { return lightImages[task] != "" }

// tasksOfUpgrade returns the tasks of an operation that changes driver and toolkit,
// without their host, in the order of the logic book.
func tasksOfUpgrade(t *testing.T) []string {
	t.Helper()
	const host = "host"
	changed := []string{upgradeplan.TargetDriver, upgradeplan.TargetToolkit}
	mission, err := upgradeplan.Plan(upgradeplan.DefaultBook(), []upgradeplan.Node{{Name: host, Changed: changed, Deployed: []string{
		upgradeplan.TargetNFD, upgradeplan.TargetDriver, upgradeplan.TargetToolkit, upgradeplan.TargetDevicePlugin,
		upgradeplan.TargetExporter, upgradeplan.TargetGFD}}}, 0)
	check(t, err)
	var tasks []string
	for task := range mission.All() {
		tasks = append(tasks, strings.TrimPrefix(task.String(), host+"_"))
	}
	return tasks
}

// underWay returns the recorded running tasks of a node's operation, without the node.
// Uncordoning is never recorded as running: it is running if everything else is done.
func underWay(nu *topsv1.NodeUpgrade) []string {
	var tasks []string
	op := nu.Status.Operation
	if op == nil {
		return nil
	}
	ending := op.Phase == topsv1.OperationReleasing && op.Outcome == topsv1.OperationDone
	for _, t := range op.Tasks {
		if op.Phase == topsv1.OperationRunning && t.State == topsv1.OperationTaskRunning || ending && t.State == topsv1.OperationTaskPending {
			tasks = append(tasks, strings.TrimPrefix(t.Name, nu.Name+"_"))
		}
	}
	return tasks
}

// powerCut powers nodes off during tasks, until every task was hit.
//
// To hit even short tasks, the manager is suspended (SIGSTOP) as soon as a task is
// recorded as running, until the node is off: the running task is then the one in the
// record. A node that is off or booting is not hit; others may be hit meanwhile.
type powerCut struct {
	*stage
	observer *harness.Observer
	// manager is the manager's process on this machine.
	manager int
	// left are the tasks not yet hit, passed all tasks of the operations.
	mu     sync.Mutex
	left   map[string]bool
	passed map[string]bool
	// may returns whether a node may be hit during a task.
	may powerPlan
	// caught receives nodes that run such a task, for which the manager is suspended.
	caught chan string
	losses int
}

// newPowerCut starts a watch for the tasks to hit.
func (s *stage) newPowerCut(tasks []string) *powerCut {
	s.t.Helper()
	manager, err := harness.PodProcess(s.managerPod(), "manager")
	check(s.t, err)
	p := &powerCut{stage: s, observer: s.observe(), manager: manager, left: map[string]bool{}, passed: map[string]bool{}, caught: make(chan string, len(victims))}
	for _, task := range tasks {
		p.left[task] = true
	}
	s.t.Cleanup(func() { _ = syscall.Kill(manager, syscall.SIGCONT) }) // may have exited
	check(s.t, harness.WatchUpgrades(s.ctx, s.Cluster, p.see))
	return p
}

// see suspends the manager if a node runs a task to hit.
func (p *powerCut) see(nu *topsv1.NodeUpgrade) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if op := nu.Status.Operation; op != nil && op.Phase == topsv1.OperationRunning {
		for _, t := range op.Tasks {
			p.passed[strings.TrimPrefix(t.Name, nu.Name+"_")] = true
		}
	}
	may := p.may[nu.Name]
	if may == nil || !slices.ContainsFunc(underWay(nu), func(task string) bool { return p.left[task] && may(task) }) {
		return
	}
	delete(p.may, nu.Name)
	if err := syscall.Kill(p.manager, syscall.SIGSTOP); err != nil {
		return // then nothing is caught, and the story reports the tasks not hit
	}
	p.caught <- nu.Name
}

// arm sets the tasks during which a node may be hit from now on.
func (p *powerCut) arm(node string, may func(task string) bool) {
	p.mu.Lock()
	p.may[node] = may
	p.mu.Unlock()
	p.see(p.upgrade(node)) // it may already run one
}

func (p *powerCut) remaining() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.left))
}

// rollout waits until a started rollout is done, and meanwhile hits nodes according to
// the plan.
func (p *powerCut) rollout(plan powerPlan, done func() error) {
	p.t.Helper()
	p.may = powerPlan{}
	for node, may := range plan {
		p.arm(node, may)
	}
	hidden, hits := slices.ContainsFunc(p.remaining(), isLight), map[string]int{}
	var booting errgroup.Group
	p.eventually("the nodes have the new version", func() error {
		for len(p.caught) > 0 {
			node := <-p.caught
			p.hit(node)
			hits[node]++
			again := hits[node] < lossesPerRollout
			booting.Go(func() error {
				if err := p.boot(node); err != nil {
					return err
				}
				if hidden {
					p.showLightImages(node)
				}
				if again { // at once, because its next task may be short
					p.arm(node, plan[node])
				}
				return nil
			})
		}
		return done()
	})
	check(p.t, booting.Wait())
	p.eventually("all cards are used again", p.trains)
	if most := p.observer.Most(); most > len(victims) {
		p.t.Errorf("%d nodes were down at once", most)
	}
	p.observer.Reset()
	p.driverWasNotForced()
}

// hit powers a node off. The manager is suspended until the node is off, and then resumed
// unless it was suspended for another node too.
func (p *powerCut) hit(node string) {
	p.t.Helper()
	before := underWay(p.upgrade(node))
	check(p.t, p.KillNodes(p.ctx, node))
	after := underWay(p.upgrade(node))
	p.mu.Lock()
	if slices.Equal(before, after) {
		p.t.Logf("%s lost its power during %q", node, after)
		for _, task := range after {
			delete(p.left, task)
		}
	} else {
		p.t.Logf("%s lost its power between %q and %q", node, before, after)
	}
	if len(p.caught) == 0 {
		check(p.t, syscall.Kill(p.manager, syscall.SIGCONT))
	}
	p.mu.Unlock()
}

// boot boots a node, and returns when its agent is back.
func (p *powerCut) boot(node string) error {
	p.mu.Lock()
	p.losses++
	noticed := p.losses%noticedEvery == 0
	p.mu.Unlock()
	boot := p.upgrade(node).Status.Host.BootID
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if noticed {
		if err := harness.Eventually(ctx, func() error {
			if nodeReady(p.node(node)) {
				return fmt.Errorf("node %s is Ready without power", node)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if err := p.StartNodes(ctx, node); err != nil {
		return err
	}
	return harness.Eventually(ctx, func() error {
		if now := p.upgrade(node).Status.Host.BootID; now == boot {
			return fmt.Errorf("the agent of %s still reports boot %s", node, now)
		}
		return nil
	})
}

// isOver checks that every task was hit, and that operations have the tasks of the logic
// book.
func (p *powerCut) isOver() {
	p.t.Helper()
	if left := p.remaining(); len(left) > 0 {
		p.t.Errorf("no node lost its power during %q", left)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if diff := cmp.Diff(slices.Sorted(slices.Values(tasksOfUpgrade(p.t))), slices.Sorted(maps.Keys(p.passed))); diff != "" {
		p.t.Errorf("the tasks of the operations are not those of the book (-book +operations):\n%s", diff)
	}
}

// hideLightImages removes the images of a node's light components, so that their pods do
// not come back when they are stopped.
func (s *stage) hideLightImages(node string) {
	s.t.Helper()
	for _, image := range lightImages {
		s.on(node, "ctr", "--namespace=k8s.io", "images", "tag", image, "hidden/"+image)
		s.on(node, "ctr", "--namespace=k8s.io", "images", "rm", image)
	}
}

// showLightImages restores the hidden images.
func (s *stage) showLightImages(node string) {
	s.t.Helper()
	have := s.on(node, "ctr", "--namespace=k8s.io", "images", "list", "--quiet")
	for _, image := range lightImages {
		if hidden := "hidden/" + image; strings.Contains(have, hidden) {
			s.on(node, "ctr", "--namespace=k8s.io", "images", "tag", hidden, image)
			s.on(node, "ctr", "--namespace=k8s.io", "images", "rm", hidden)
		}
	}
}

// powerLoss: nodes lose everything except their disk during the most relevant tasks of an
// upgrade of driver and toolkit: those of the node agent, those that kill processes, and
// short ones that must not be repeated.
func (s *stage) powerLoss() {
	s.losePower([]string{"driver_prepull", "node_evict", "driver_replace", "node_restart-runtime", "node_uncordon"}, func([]string) powerPlan {
		return powerPlan{
			victims[0]: func(task string) bool { return task != "node_restart-runtime" && task != "node_uncordon" },
			victims[1]: func(task string) bool { return task == "node_restart-runtime" || task == "node_uncordon" },
		}
	})
}

// powerLossEverywhere is the same for every task. Tasks that ended before the power loss
// are tried again in another rollout.
func (s *stage) powerLossEverywhere() {
	s.deploy()
	tasks := tasksOfUpgrade(s.t)
	ofRestart := func(task string) bool { return task == "node_restart-runtime" || task == "runtime_verify" }
	s.losePower(tasks, func(left []string) powerPlan {
		plan := powerPlan{
			victims[0]: func(task string) bool { return !isLight(task) && !ofRestart(task) },
			// With a hit at every task, little of a normal upgrade would be left.
			victims[1]: func(task string) bool { return ofRestart(task) || !isLight(task) && slices.Index(tasks, task)%2 == 1 },
		}
		if slices.ContainsFunc(left, isLight) {
			plan[victims[0]] = isLight
			s.hideLightImages(victims[0])
		}
		return plan
	})
}

// powerPlan returns for each node whether it may lose its power during a task.
type powerPlan map[string]func(task string) bool

// losePower upgrades the victims until all tasks were hit. On the second victim
// containerd runs with another default runtime than its configuration file, so that it
// must be restarted.
func (s *stage) losePower(tasks []string, plan func(left []string) powerPlan) {
	s.t.Helper()
	s.limitedTo(victims...)
	s.settings(fmt.Sprintf("%s=%d", topsv1.AnnotationMaxUnavailable, len(victims)))
	p := s.newPowerCut(tasks)
	for i := 0; i < mostRollouts && len(p.remaining()) > 0; i++ {
		if slices.Contains(p.remaining(), "node_restart-runtime") {
			s.loseDefaultRuntime(victims[1])
		}
		may, now := plan(p.remaining()), s.gr().Spec
		driver, toolkit := other(now.Driver.Version), other(now.Toolkit.Version)
		s.setBoth(driver, toolkit)
		p.rollout(may, func() error {
			if err := s.toolkitIs(toolkit, victims...); err != nil {
				return err
			}
			return s.driverIs(driver, victims...)
		})
	}
	p.isOver()
}

// setBoth changes the versions of driver and toolkit. The operator writes one DaemonSet
// after the other; the rollout is paused until both are written, so that one operation
// changes both.
func (s *stage) setBoth(driver, toolkit string) {
	s.t.Helper()
	s.settings(topsv1.AnnotationPaused + "=true")
	s.kubectl("patch", "gr", grName, "--type=merge", "--patch", fmt.Sprintf(`{"spec":{"driver":{"version":%q},"toolkit":{"version":%q}}}`, driver, toolkit))
	s.eventually("driver and toolkit are to change", func() error {
		for set, version := range map[string]string{driverSet: driver, toolkitSet: toolkit} {
			var ds appsv1.DaemonSet
			if err := s.Client.Get(s.ctx, client.ObjectKey{Namespace: system, Name: set}, &ds); err != nil {
				return err
			}
			if image := ds.Spec.Template.Spec.Containers[0].Image; !strings.HasSuffix(image, ":"+version) {
				return fmt.Errorf("%s has image %s", set, image)
			}
		}
		return nil
	})
	s.settings(topsv1.AnnotationPaused + "-")
}

// loseDefaultRuntime runs a node's containerd with a configuration without the default
// runtime that the file on disk has.
func (s *stage) loseDefaultRuntime(node string) {
	s.t.Helper()
	const config = "/etc/containerd/config.toml"
	s.on(node, "sh", "-ec", "cp "+config+" /run/config.toml; sed -i 's/default_runtime_name = .*/default_runtime_name = \"runc\"/' "+config+
		"; /etc/init.d/containerd restart; cp /run/config.toml "+config)
}
