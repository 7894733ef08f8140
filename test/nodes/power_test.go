package nodes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

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
)

// lightImages are those of the components that are back with the device, as a rule before
// the operation comes to them: their tasks are done when they would begin.
var lightImages = map[string]string{
	"exporter_replace": "artifact.enflame.cn/enflame_docker_images/enflame/gcu-exporter:latest",
	"gfd_replace":      "artifact.enflame.cn/galaxy_docker_hub/gcu/gcu-gfd:latest",
}

// tasksOf are the tasks of an operation that changes a component, without their host, in
// the order of the book.
func tasksOf(t *testing.T, component string) []string {
	t.Helper()
	const host = "host"
	mission, err := upgradeplan.Plan(upgradeplan.DefaultBook(), []upgradeplan.Node{{Name: host, Changed: []string{component}, Deployed: []string{
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
// what is recorded then is what the node was at.
type powerCut struct {
	*stage
	observer *harness.Observer
	// manager is its process on this machine.
	manager int
	// left are the tasks that were not hit yet, passed all that operations had.
	mu     sync.Mutex
	left   map[string]bool
	passed map[string]bool
	// may says which tasks a node may be hit at; nil: none now.
	may    map[string]func(task string) bool
	caught chan string
	losses int
}

// newPowerCut starts to watch, for tasks that are to be hit.
func (s *stage) newPowerCut(tasks []string) *powerCut {
	s.t.Helper()
	manager, err := harness.PodProcess(s.managerPod(), "manager")
	check(s.t, err)
	p := &powerCut{stage: s, observer: s.observe(), manager: manager, left: map[string]bool{}, passed: map[string]bool{}, caught: make(chan string, 1)}
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
	p.may = nil
	if err := syscall.Kill(p.manager, syscall.SIGSTOP); err != nil {
		return // then nothing is caught, and the story says what was not hit
	}
	p.caught <- nu.Name
}

// arm says at which tasks nodes may be hit from now on.
func (p *powerCut) arm(may map[string]func(task string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.may = may
}

func (p *powerCut) remaining() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.left))
}

// rollout waits until a rollout that was begun is done, and hits nodes meanwhile at the
// tasks they may be hit at.
func (p *powerCut) rollout(may map[string]func(task string) bool, done func() error) {
	p.t.Helper()
	hits := map[string]int{}
	for node := p.next(may, done); node != ""; node = p.next(may, done) {
		p.hit(node)
		if hits[node]++; hits[node] == lossesPerRollout {
			delete(may, node)
		}
	}
	p.eventually("all cards are used again", p.trains)
	if most := p.observer.Most(); most != 1 {
		p.t.Errorf("%d nodes were down at once", most)
	}
	p.observer.Reset()
	p.driversWereNotForced()
}

// next waits until a node is at a task that it may be hit at, and returns it; "" when the
// rollout is done first.
func (p *powerCut) next(may map[string]func(task string) bool, done func() error) (node string) {
	p.t.Helper()
	p.arm(may)
	for name := range may {
		p.see(p.upgrade(name)) // it may be at one already
	}
	p.eventually("a node is to lose its power, or all have the new version", func() error {
		select {
		case node = <-p.caught:
			return nil
		default:
			return done()
		}
	})
	p.arm(nil)
	if node == "" && len(p.caught) > 0 {
		node = <-p.caught // right then
	}
	return node
}

// hit takes the power of a node, gives it back, and waits until its agent is back. The
// manager is stopped until the power is gone.
func (p *powerCut) hit(node string) {
	p.t.Helper()
	boot := p.upgrade(node).Status.Host.BootID
	before := underWay(p.upgrade(node))
	check(p.t, p.KillNodes(p.ctx, node))
	after := underWay(p.upgrade(node))
	check(p.t, syscall.Kill(p.manager, syscall.SIGCONT))
	if !slices.Equal(before, after) {
		p.t.Logf("%s lost its power between %q and %q", node, before, after)
	} else {
		p.t.Logf("%s lost its power in the middle of %q", node, after)
		p.mu.Lock()
		for _, task := range after {
			delete(p.left, task)
		}
		p.mu.Unlock()
	}
	if p.losses++; p.losses%noticedEvery == 0 {
		p.eventually("the cluster has noticed that "+node+" is gone", func() error {
			if nodeReady(p.node(node)) {
				return fmt.Errorf("it is Ready")
			}
			return nil
		})
	}
	check(p.t, p.StartNodes(p.ctx, node))
	p.eventually("the agent of "+node+" tells of another boot", func() error {
		if now := p.upgrade(node).Status.Host.BootID; now == boot {
			return fmt.Errorf("it is %s", now)
		}
		return nil
	})
	p.showLightImages(node)
}

// driversWereNotForced checks that no driver was asked to go while a card was in use: its
// container would have ended with this code. That of a lost node has another one.
func (p *powerCut) driversWereNotForced() {
	p.t.Helper()
	for _, pod := range p.pods(system, nameLabel, driverSet) {
		for _, c := range pod.Status.ContainerStatuses {
			if end := c.LastTerminationState.Terminated; end != nil && end.ExitCode == 1 {
				p.t.Errorf("driver pod %s could not unload the one before: %+v", pod.Name, end)
			}
		}
	}
}

// isOver checks that every task was hit, and that operations have the tasks of the book.
func (p *powerCut) isOver(want []string) {
	p.t.Helper()
	if left := p.remaining(); len(left) > 0 {
		p.t.Errorf("no node lost its power in the middle of %q", left)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(maps.Keys(p.passed))); diff != "" {
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

// driverPowerLoss: nodes lose everything but their disk in the middle of each task of a
// driver upgrade. What passed by before the power went is tried again in another rollout.
func (s *stage) driverPowerLoss() {
	s.deploy("AdvancedRollingUpdate", "brisk")
	s.train()
	tasks := tasksOf(s.t, upgradeplan.TargetDriver)
	p := s.newPowerCut(tasks)
	victims := s.victims()
	isLight := func(task string) bool { return lightImages[task] != "" }
	isHeavy := func(task string) bool { return !isLight(task) }
	every2nd := func(task string) bool { return isHeavy(task) && slices.Index(tasks, task)%2 == 1 }
	for i, version := range []string{"2.0.0", "1.0.0", "2.0.0", "1.0.0"} {
		if len(p.remaining()) == 0 {
			break
		}
		may := map[string]func(string) bool{victims[0]: isHeavy, victims[1]: isHeavy}
		if slices.ContainsFunc(p.remaining(), isLight) {
			may[victims[0]] = isLight
			s.hideLightImages(victims[0])
		}
		if i == 0 {
			may[victims[1]] = every2nd // one after the other would be less of an upgrade
		}
		tag := version
		if version == "1.0.0" {
			tag = "latest"
		}
		s.set("driver", tag)
		p.rollout(may, func() error { return s.driverIs(tag, version) })
	}
	p.isOver(tasks)
	s.clear()
	s.nodesAreClean()
}
