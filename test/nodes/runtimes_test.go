package nodes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// toolkitIs returns nil if nodes have a version of the toolkit, and are uncordoned. The
// check that runs a program on each node comes last.
func (s *stage) toolkitIs(tag string, nodes ...string) error {
	for _, node := range nodes {
		if err := s.runs(toolkitSet, node, tag); err != nil {
			return err
		}
		if op := s.upgrade(node).Status.Operation; op == nil || op.Phase != topsv1.OperationDone {
			return fmt.Errorf("node %s is at %+v", node, op)
		}
		if !nodeReady(s.node(node)) {
			return fmt.Errorf("node %s is not Ready", node)
		}
		if err := s.givenBack(node); err != nil {
			return err
		}
	}
	if err := s.cardsAreOffered(); err != nil {
		return err
	}
	for _, node := range nodes {
		installed, err := s.OnNode(s.ctx, node, nil, "cat", "/etc/enflame-container-runtime/config.toml")
		if err != nil {
			return err
		}
		if strings.TrimSpace(installed) != fmt.Sprintf("version = %q", versionOf(tag)) {
			return fmt.Errorf("node %s has toolkit %s", node, installed)
		}
	}
	return nil
}

// restartResult returns the reported result of the last requested restart on a node.
func (s *stage) restartResult(node string) topsv1.HostTaskResult {
	s.t.Helper()
	status := s.upgrade(node).Status
	if status.Operation == nil {
		s.t.Fatalf("node %s has no operation", node)
	}
	result := status.Host.Result(status.Operation.ID, node+"_node_restart-runtime")
	if result == nil {
		return topsv1.HostTaskResult{}
	}
	return *result
}

// restartCycles returns the number of restarts in the log of a node's agent.
func (s *stage) restartCycles(node string) int {
	s.t.Helper()
	return strings.Count(s.on(node, "sh", "-c", "cat /var/log/topscloud/gcu-operator/restart-docker.log 2>/dev/null || true"), "ready restart")
}

// trainingOn returns the training pods of a node.
func (s *stage) trainingOn(node string) []corev1.Pod {
	s.t.Helper()
	return slices.DeleteFunc(s.pods("default", "app", "training"), func(p corev1.Pod) bool { return p.Spec.NodeName != node })
}

// emptyWhenRestarted waits until the engine of one of several nodes was restarted, and
// checks that the training pods of that node were evicted before.
func (s *stage) emptyWhenRestarted(before map[string]engine) {
	s.t.Helper()
	var node string
	s.eventually("an engine is restarted", func() error {
		for _, n := range slices.Sorted(maps.Keys(before)) {
			if s.starts(n, before[n].name) != before[n].starts {
				node = n
				return nil
			}
		}
		return fmt.Errorf("it is %+v", before)
	})
	if left := s.trainingOn(node); len(left) > 0 {
		s.t.Errorf("%s of %s was restarted under pod %s", before[node].name, node, left[0].Name)
	}
	if !s.node(node).Spec.Unschedulable {
		s.t.Errorf("%s of %s was restarted while the node took new pods", before[node].name, node)
	}
}

// firstRestarts: the gr is deployed on nodes whose engines nobody has restarted. docker's restart
// kills the agent that requests it. The other agents leave restarts to the administrator: until he
// restarts containerd, their nodes are in service without cards, and not updated.
func (s *stage) firstRestarts() {
	s.leaveRestartsToAdministrator()
	s.moveAgentToDocker()
	s.leavesTheContainer()
	docker := s.engine(dockerNode, "docker")
	agent, agentProcess, _ := s.inDocker(agentContainer)
	engines := map[string]engine{}
	for _, node := range victims {
		engines[node] = s.engine(node, "containerd")
	}
	s.createGR()
	s.eventually("the rollout waits for the administrator", s.awaitsAdministrator)
	var old []types.UID
	for node, was := range engines {
		s.wasRestarted(0, node, was)
		old = append(old, s.usersOfDevice(node)...)
	}
	s.everywhere(victims, func(node string) error {
		_, err := s.OnNode(s.ctx, node, nil, "/etc/init.d/containerd", "restart")
		return err
	})
	s.deployed()
	s.eventually("all nodes are updated", func() error {
		if status := s.rollout().Status; int(status.Updated) != len(allNodes) || len(status.Waiting) > 0 {
			return fmt.Errorf("%d are, and it waits for %+v", status.Updated, status.Waiting)
		}
		return nil
	})
	s.wasRestarted(1, dockerNode, docker)
	for node, was := range engines {
		s.wasRestarted(1, node, was)
		for _, uid := range s.usersOfDevice(node) {
			if slices.Contains(old, uid) {
				s.t.Errorf("pod %s on %s was not replaced, and started before containerd", uid, node)
			}
		}
	}
	if id, process, restarts := s.inDocker(agentContainer); id != agent || process == agentProcess || restarts != "0" {
		s.t.Errorf("the agent was process %s, is process %s, and exited by itself %s times; want it killed by docker's restart", agentProcess, process, restarts)
	}
	s.letAgentsRestartEngines()
	s.kubectl("rollout", "status", "daemonset/"+agentSet, "--namespace="+system, "--timeout=2m")
}

// usersOfDevice returns the pods that run on a node and are replaced if its engine is restarted: one that starts later has cards.
func (s *stage) usersOfDevice(node string) []types.UID {
	s.t.Helper()
	var uids []types.UID
	for _, set := range []string{pluginSet, exporterSet, gfdSet} {
		if pod := s.podOn(set, node); pod != nil && pod.Status.Phase == corev1.PodRunning {
			uids = append(uids, pod.UID)
		}
	}
	return uids
}

// awaitsAdministrator returns nil if the rollout waits for the administrator to restart containerd of
// the victims, says so of each, and keeps none of them from other work.
func (s *stage) awaitsAdministrator() error {
	status := s.rollout().Status
	waits := slices.ContainsFunc(status.Waiting, func(n topsv1.WaitingNote) bool {
		return n.Reason == topsv1.ReasonLeftToAdministrator && int(n.Nodes) == len(victims)
	})
	if !waits || int(status.Updated) != len(allNodes)-len(victims) || len(status.InFlight) > 0 {
		return fmt.Errorf("%d nodes are updated, in flight are %+v, it waits for %+v", status.Updated, status.InFlight, status.Waiting)
	}
	if phase := s.gr().Status.Phase; phase == "Running" {
		return fmt.Errorf("the gr is %s", phase)
	}
	for _, node := range victims {
		if err := s.givenBack(node); err != nil {
			return err
		}
		if err := s.runs(pluginSet, node, "latest"); err != nil {
			return err
		}
		if offered := s.node(node).Status.Allocatable[gcu]; !offered.IsZero() {
			return fmt.Errorf("node %s offers %s cards", node, offered.String())
		}
	}
	told, err := s.tryGCU("nodes")
	if err != nil {
		return err
	}
	for _, node := range victims {
		for _, text := range []string{"held", "LeftToAdministrator", "containerd on node " + node, "systemctl restart containerd", "--restart-runtime=false"} {
			if !slices.ContainsFunc(strings.Split(told, "\n"), func(line string) bool { return strings.HasPrefix(line, node+" ") && strings.Contains(line, text) }) {
				return fmt.Errorf("it does not say %q of %s:\n%s", text, node, told)
			}
		}
	}
	return nil
}

// runtimeRestarts: driver and toolkit of all nodes are upgraded, which requires restarts of their
// engines: first of one node, by the person at it, then of the others. The agent that requests
// docker's restart is a docker container and is killed by it. containerd is restarted under the
// kubelet, the pods, and the agent that requests it.
func (s *stage) runtimeRestarts() {
	s.settings(topsv1.AnnotationPaused + "=true")
	// An administrator has changed the configuration of all engines. The agents of the victims
	// read it again when a task starts.
	s.configureDocker("{}")
	s.dockerNeedsRestart(true)
	s.everywhere(victims, func(node string) error {
		_, err := s.OnNode(s.ctx, node, nil, "sh", "-ec",
			`sed -i -E 's/default_runtime_name = .*/default_runtime_name = "runc"/' /etc/containerd/config.toml; /etc/init.d/containerd restart`)
		return err
	})
	docker, engines := s.engine(dockerNode, "docker"), map[string]engine{}
	for _, node := range victims {
		engines[node] = s.engine(node, "containerd")
	}
	other, pods := s.engine(dockerNode, "containerd"), s.containers()
	agent, agentProcess, _ := s.inDocker(agentContainer)
	_, otherProcess, _ := s.inDocker(bystander)
	cycles := s.restartCycles(dockerNode)
	s.settings(topsv1.AnnotationUpdateStrategy+"=OTA", topsv1.AnnotationMaxUnavailable+"="+fmt.Sprint(len(allNodes)))
	s.setBoth("2.0.0", "2.0.0")
	s.settings(topsv1.AnnotationPaused + "-")
	s.personUpgrades(dockerNode, "2.0.0", "2.0.0")
	s.settings(topsv1.AnnotationUpdateStrategy + "=AdvancedRollingUpdate")
	s.emptyWhenRestarted(engines)
	engines[dockerNode] = docker
	s.eventually("all nodes have the new toolkit", func() error { return s.toolkitIs("2.0.0", allNodes...) })
	s.eventually("all nodes have the new driver", func() error { return s.driverIs("2.0.0", allNodes...) })
	s.eventually("all cards are used again", s.trains)
	for node, was := range engines {
		s.wasRestarted(1, node, was)
		if result := s.restartResult(node); result.State != topsv1.HostTaskDone || result.Reason != "Restarted" {
			s.t.Errorf("the agent of %s tells %+v", node, result)
		}
	}
	s.wasRestarted(0, dockerNode, other)
	s.podsRanOn(pods)
	if id, process, restarts := s.inDocker(agentContainer); id != agent || process == agentProcess || restarts != "0" {
		s.t.Errorf("the agent was process %s, is process %s, and exited by itself %s times; want it killed by docker's restart", agentProcess, process, restarts)
	}
	if _, process, _ := s.inDocker(bystander); process == otherProcess {
		s.t.Errorf("the other docker container is still process %s, want it killed by the restart", process)
	}
	if now := s.restartCycles(dockerNode); now != cycles+1 {
		s.t.Errorf("restart-docker.log has %d more restarts, want 1", now-cycles)
	}
}

// liveRestore: docker's containers survive its restart. The toolkit is slow: its pod is
// already Ready, because of the previous version, while docker is not yet reconfigured.
func (s *stage) liveRestore() {
	s.deploy()
	s.limitedTo(dockerNode)
	s.settings(topsv1.AnnotationPaused + "=true")
	s.moveAgentToDocker()
	s.configureDocker(`{"live-restore": true}`)
	s.dockerNeedsRestart(false)
	docker := s.engine(dockerNode, "docker")
	before := map[string]string{}
	for _, name := range []string{agentContainer, bystander} {
		_, before[name], _ = s.inDocker(name)
	}
	s.kubectl("patch", "gr", grName, "--type=merge",
		`--patch={"spec":{"toolkit":{"version":"2.0.0","env":[{"name":"STANDIN_DELAY","value":"8s"}]}}}`)
	s.settings(topsv1.AnnotationPaused + "-")
	s.emptyWhenRestarted(map[string]engine{dockerNode: docker})
	s.eventually("the node has the other toolkit", func() error { return s.toolkitIs("2.0.0", dockerNode) })
	s.eventually("all cards are used again", s.trains)
	s.wasRestarted(1, dockerNode, docker)
	for name, was := range before {
		if _, process, _ := s.inDocker(name); process != was {
			s.t.Errorf("container %s was process %s, is process %s, want it to survive the restart", name, was, process)
		}
	}
	if result := s.restartResult(dockerNode); result.State != topsv1.HostTaskDone || result.Reason != "Restarted" {
		s.t.Errorf("the agent tells %+v", result)
	}
}

// brokenDocker: docker fails to start because of an invalid setting in its configuration.
// The status says what to do, and the agent is killed while docker cannot restart it.
// When docker is repaired, both resume.
func (s *stage) brokenDocker() {
	s.settings(topsv1.AnnotationPaused + "=true")
	s.configureDocker(`{"live-restore": true}`)
	s.dockerNeedsRestart(false)
	agent, agentProcess, _ := s.inDocker(agentContainer)
	_, otherProcess, _ := s.inDocker(bystander)
	cycles := s.restartCycles(dockerNode)
	s.writeDockerConfig(`{"live-restore": true, "storage-driver": "none"}`)
	s.kubectl("patch", "gr", grName, "--type=merge", `--patch={"spec":{"toolkit":{"version":"latest","env":null}}}`)
	s.settings(topsv1.AnnotationPaused + "-")
	s.eventually("the operation says what is wrong, and what to do", func() error {
		op := s.upgrade(dockerNode).Status.Operation
		for _, text := range []string{"docker is not responding", "/etc/docker/daemon.json", "/etc/init.d/docker restart"} {
			if op == nil || op.Task != dockerNode+"_node_restart-runtime" || !strings.Contains(op.Message, text) {
				return fmt.Errorf("it does not say %q: %+v", text, op)
			}
		}
		return nil
	})
	if !s.node(dockerNode).Spec.Unschedulable || len(s.trainingOn(dockerNode)) > 0 {
		s.t.Error("the node takes pods while docker is broken")
	}
	pid, _, _ := strings.Cut(agentProcess, "/")
	s.on(dockerNode, "kill", "-9", pid)
	s.on(dockerNode, "sed", "-i", `/"storage-driver"/d; s/^    },$/    }/`, "/etc/docker/daemon.json") // the last entry
	s.eventually("the node has the new toolkit", func() error { return s.toolkitIs("latest", dockerNode) })
	s.eventually("all cards are used again", s.trains)
	if id, process, _ := s.inDocker(agentContainer); id != agent || process == agentProcess {
		s.t.Errorf("the agent was process %s of container %s, and is %s of %s", agentProcess, agent, process, id)
	}
	if _, process, _ := s.inDocker(bystander); process != otherProcess {
		s.t.Errorf("the other docker container was process %s, is process %s", otherProcess, process)
	}
	if now := s.restartCycles(dockerNode); now != cycles+1 {
		s.t.Errorf("the agent requested %d restarts, want 1", now-cycles)
	}
}
