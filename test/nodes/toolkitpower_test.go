package nodes

import (
	"fmt"
	"slices"

	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// toolkitPowerLoss: the same in the middle of the tasks that only the upgrade of a toolkit
// has. One node runs its containers with another default runtime than it is configured
// for, so that the engine has to be restarted there, and loses its power meanwhile;
// another one loses it before that, in another rollout.
func (s *stage) toolkitPowerLoss() {
	s.deploy("AdvancedRollingUpdate", "brisk")
	s.train()
	s.letAgentsRestartEngines()
	tasks, ofDriver := tasksOf(s.t, upgradeplan.TargetToolkit), tasksOf(s.t, upgradeplan.TargetDriver)
	own := slices.DeleteFunc(slices.Clone(tasks), func(task string) bool { return slices.Contains(ofDriver, task) })
	p := s.newPowerCut(own)
	victims := s.victims()
	slices.Sort(victims)
	restarted, other := victims[0], victims[1] // the last node has docker too
	ofRestart := func(task string) bool { return task == "node_restart-runtime" || task == "runtime_verify" }
	for _, version := range []string{"2.0.0", "latest", "2.0.0", "latest"} {
		left := p.remaining()
		if len(left) == 0 {
			break
		}
		may := map[string]func(string) bool{other: func(task string) bool { return !ofRestart(task) }}
		if slices.ContainsFunc(left, ofRestart) {
			s.loseDefaultRuntime(restarted)
			may = map[string]func(string) bool{restarted: ofRestart}
		}
		s.set("toolkit", version)
		p.rollout(may, func() error { return s.toolkitWorks(version) })
	}
	p.isOver(tasks)
	s.kubectl("rollout", "undo", "--namespace="+system, "daemonset/"+agentSet)
	s.kubectl("rollout", "status", "--namespace="+system, "daemonset/"+agentSet, "--timeout=2m")
	s.clear()
	s.nodesAreClean()
}

// letAgentsRestartEngines gives the agents the command that restarts containerd here,
// and the rights that it takes: the nodes have no systemd.
func (s *stage) letAgentsRestartEngines() {
	s.t.Helper()
	s.kubectl("patch", "daemonset", agentSet, "--namespace="+system, "--patch-file=test/nodes/testdata/agent-without-systemd.yaml")
	s.kubectl("rollout", "status", "--namespace="+system, "daemonset/"+agentSet, "--timeout=2m")
}

// loseDefaultRuntime has the containerd of a node run with a configuration that does not
// name the default runtime of the one on the disk.
func (s *stage) loseDefaultRuntime(node string) {
	s.t.Helper()
	const config = "/etc/containerd/config.toml"
	s.on(node, "sh", "-ec", "cp "+config+" /run/config.toml; sed -i 's/default_runtime_name = .*/default_runtime_name = \"runc\"/' "+config+
		"; /etc/init.d/containerd restart; cp /run/config.toml "+config)
	s.eventually("the agent of "+node+" tells of another default runtime", func() error {
		if engine := s.upgrade(node).Status.Host.Runtime; engine == nil || engine.Default != "runc" {
			return fmt.Errorf("it tells of %+v", engine)
		}
		return nil
	})
}

// toolkitWorks tells what is missing until all nodes have a version of the toolkit and run
// with its runtime, pods of all components, and no mark of an upgrade.
func (s *stage) toolkitWorks(version string) error {
	for _, node := range allNodes {
		if err := s.runs(toolkitSet, node, version); err != nil {
			return err
		}
		if engine := s.upgrade(node).Status.Host.Runtime; engine == nil || engine.Default != "enflame" {
			return fmt.Errorf("node %s has runtime %+v", node, engine)
		}
		if err := s.givenBack(node); err != nil {
			return err
		}
	}
	return s.isRunning("6/6")
}
