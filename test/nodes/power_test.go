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
	// lossesPerRollout is how often a node loses its power in one rollout at most.
	lossesPerRollout = 4
	// noticedEvery is how many losses there are for one that the cluster notices: the
	// power is back before the others are.
	noticedEvery = 4
	// mostRollouts is how many there are for what passed by in those before.
	mostRollouts = 8
)

// lightImages are those of the components that are back with the device, as a rule before
// the operation comes to them: their tasks are done when they would begin.
var lightImages = map[string]string{
	"exporter_replace": "artifact.enflame.cn/enflame_docker_images/enflame/gcu-exporter:latest",
	"gfd_replace":      "artifact.enflame.cn/galaxy_docker_hub/gcu/gcu-gfd:latest",
}

func isLight(task string) bool { return lightImages[task] != "" }

// tasksOfUpgrade are the tasks of an operation that changes driver and toolkit, without their host, in
// the order of the book.
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

// underWay are the tasks that the operation of a node is in the middle of, as the
// operator has recorded it, without the node. Giving the node back is never marked as
// running: it is what is left when everything else is done.
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

// powerCut takes the power of nodes in the middle of tasks, until every task was hit.
//
// To be surely in the middle of one that takes a moment only, the manager is stopped
// (SIGSTOP) as soon as a task is seen to be recorded as begun, until the power is gone:
// what is recorded then is what the node was at. A node that is off or boots is not hit; the
// others may be meanwhile.
type powerCut struct {
	*stage
	observer *harness.Observer
	// manager is its process on this machine.
	manager int
	// left are the tasks that were not hit yet, passed all that operations had.
	mu     sync.Mutex
	left   map[string]bool
	passed map[string]bool
	// may says which tasks a node may be hit at now.
	may powerPlan
	// caught are nodes that are at such a task, for which the manager is stopped.
	caught chan string
	losses int
}

// newPowerCut starts to watch, for tasks that are to be hit.
func (s *stage) newPowerCut(tasks []string) *powerCut {
	s.t.Helper()
	manager, err := harness.PodProcess(s.managerPod(), "manager")
	check(s.t, err)
	p := &powerCut{stage: s, observer: s.observe(), manager: manager, left: map[string]bool{}, passed: map[string]bool{}, caught: make(chan string, len(victims))}
	for _, task := range tasks {
		p.left[task] = true
	}
	s.t.Cleanup(func() { _ = syscall.Kill(manager, syscall.SIGCONT) }) // it may have ended
	check(s.t, harness.WatchUpgrades(s.ctx, s.Cluster, p.see))
	return p
}

// see stops the manager when a node is at a task that is to be hit.
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
		return // then nothing is caught, and the story says what was not hit
	}
	p.caught <- nu.Name
}

// arm says at which tasks a node may be hit from now on.
func (p *powerCut) arm(node string, may func(task string) bool) {
	p.mu.Lock()
	p.may[node] = may
	p.mu.Unlock()
	p.see(p.upgrade(node)) // it may be at one already
}

func (p *powerCut) remaining() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.left))
}

// rollout waits until a rollout that was begun is done, and hits nodes meanwhile at the
// tasks they may be hit at.
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
				if again { // at once: its next task may be a short one
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

// hit takes the power of a node. The manager is stopped until the power is gone, and goes on
// unless it was stopped for another node too.
func (p *powerCut) hit(node string) {
	p.t.Helper()
	before := underWay(p.upgrade(node))
	check(p.t, p.KillNodes(p.ctx, node))
	after := underWay(p.upgrade(node))
	p.mu.Lock()
	if slices.Equal(before, after) {
		p.t.Logf("%s lost its power in the middle of %q", node, after)
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

// boot gives a node its power back, and returns when its agent is back.
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
			return fmt.Errorf("the agent of %s tells of boot %s still", node, now)
		}
		return nil
	})
}

// isOver checks that every task was hit, and that operations have the tasks of the book.
func (p *powerCut) isOver() {
	p.t.Helper()
	if left := p.remaining(); len(left) > 0 {
		p.t.Errorf("no node lost its power in the middle of %q", left)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if diff := cmp.Diff(slices.Sorted(slices.Values(tasksOfUpgrade(p.t))), slices.Sorted(maps.Keys(p.passed))); diff != "" {
		p.t.Errorf("the tasks of the operations are not those of the book (-book +operations):\n%s", diff)
	}
}

// hideLightImages takes the images away that light components of a node run, so that
// these do not come back when they are stopped.
func (s *stage) hideLightImages(node string) {
	s.t.Helper()
	for _, image := range lightImages {
		s.on(node, "ctr", "--namespace=k8s.io", "images", "tag", image, "hidden/"+image)
		s.on(node, "ctr", "--namespace=k8s.io", "images", "rm", image)
	}
}

// showLightImages gives them back, if they were taken away.
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

// powerLoss: nodes lose everything but their disk in the middle of the tasks that matter of an
// upgrade of driver and toolkit: what the node agent does, what ends processes, what takes a
// moment and is not to be done again.
func (s *stage) powerLoss() {
	s.losePower([]string{"driver_prepull", "node_evict", "driver_replace", "node_restart-runtime", "node_uncordon"}, func([]string) powerPlan {
		return powerPlan{
			victims[0]: func(task string) bool { return task != "node_restart-runtime" && task != "node_uncordon" },
			victims[1]: func(task string) bool { return task == "node_restart-runtime" || task == "node_uncordon" },
		}
	})
}

// powerLossEverywhere is the same in the middle of each task. What passed by before the power
// went is tried again in another rollout.
func (s *stage) powerLossEverywhere() {
	s.letAgentsRestartEngines()
	s.deploy()
	tasks := tasksOfUpgrade(s.t)
	ofRestart := func(task string) bool { return task == "node_restart-runtime" || task == "runtime_verify" }
	s.losePower(tasks, func(left []string) powerPlan {
		plan := powerPlan{
			victims[0]: func(task string) bool { return !isLight(task) && !ofRestart(task) },
			// One task after the other would be less of an upgrade.
			victims[1]: func(task string) bool { return ofRestart(task) || !isLight(task) && slices.Index(tasks, task)%2 == 1 },
		}
		if slices.ContainsFunc(left, isLight) {
			plan[victims[0]] = isLight
			s.hideLightImages(victims[0])
		}
		return plan
	})
}

// powerPlan says at which tasks nodes may lose their power.
type powerPlan map[string]func(task string) bool

// losePower upgrades the victims until their power was lost in the middle of all tasks. The second one
// runs its containers with another default runtime than it is configured for, so that the engine
// has to be restarted there.
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

// setBoth changes the versions of driver and toolkit. The operator, which writes one DaemonSet after
// the other, begins when both are there, so that one operation changes both.
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

// loseDefaultRuntime has the containerd of a node run with a configuration that does not
// name the default runtime of the one on the disk.
func (s *stage) loseDefaultRuntime(node string) {
	s.t.Helper()
	const config = "/etc/containerd/config.toml"
	s.on(node, "sh", "-ec", "cp "+config+" /run/config.toml; sed -i 's/default_runtime_name = .*/default_runtime_name = \"runc\"/' "+config+
		"; /etc/init.d/containerd restart; cp /run/config.toml "+config)
}
