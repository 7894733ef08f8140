package nodes

import (
	"fmt"
	"os"
	"strings"
)

const (
	// agentContainer is a node agent as a docker container, bystander another container that
	// should always run.
	agentContainer = "gcu-node-agent"
	bystander      = "bystander"
	operatorImage  = "artifact.enflame.cn/enflame_docker_images/enflame/gcu-operator:dev"
	workloadImage  = "artifact.enflame.cn/enflame_docker_images/enflame/gcu-workload:latest"
)

// letAgentsRestartEngines gives the agents a restart command for containerd and the
// rights it needs, because the nodes have no systemd.
func (s *stage) letAgentsRestartEngines() {
	s.t.Helper()
	s.kubectl("patch", "daemonset", agentSet, "--namespace="+system, "--patch-file=test/nodes/testdata/agent-without-systemd.yaml")
}

// leaveRestartsToAdministrator has the agents that run as pods restart no engine, until
// letAgentsRestartEngines.
func (s *stage) leaveRestartsToAdministrator() {
	s.t.Helper()
	s.kubectl("patch", "daemonset", agentSet, "--namespace="+system, "--type=json",
		`--patch=[{"op":"add","path":"/spec/template/spec/containers/0/args/-","value":"--restart-runtime=false"}]`)
}

// restartDocker restarts docker. The kubelet of dockerNode gets its containers from containerd,
// which is restarted too if the toolkit has configured it since it started.
const restartDocker = "[ /run/containerd/containerd.sock -nt /etc/containerd/config.toml ] || /etc/init.d/containerd restart; exec /etc/init.d/docker restart"

// handOver returns the command with which an agent in a container makes the node restart
// docker, one node-agent flag per argument (node-agent --help).
func handOver() []string {
	var args []string
	for _, arg := range []string{"/usr/bin/node-agent", "host-exec", "/bin/sh", "-c", restartDocker} {
		args = append(args, "--restart-command-docker="+arg)
	}
	return args
}

// moveAgentToDocker runs the node agent of dockerNode as a docker container instead of a
// pod, with docker as its engine. It has the rights of its pod, and those that a node
// without systemd needs.
func (s *stage) moveAgentToDocker() {
	s.t.Helper()
	s.kubectl("label", "node", dockerNode, "example.com/node-agent=docker")
	s.eventually("no pod is the node agent of "+dockerNode, func() error {
		for _, pod := range s.pods(system, nameLabel, agentSet) {
			if pod.Spec.NodeName == dockerNode {
				return fmt.Errorf("there is %s", pod.Name)
			}
		}
		return nil
	})
	path, err := s.ServiceAccountKubeconfig(s.ctx, system+"/"+agentSet, dockerNode)
	check(s.t, err)
	kubeconfig, err := os.Open(path)
	check(s.t, err)
	_, err = s.OnNode(s.ctx, dockerNode, kubeconfig, "install", "-D", "--mode=600", "/dev/stdin", "/etc/gcu-node-agent/kubeconfig")
	check(s.t, err)
	check(s.t, kubeconfig.Close())
	s.on(dockerNode, append([]string{"docker", "run", "--detach", "--name=" + agentContainer, "--restart=always", "--network=host", "--pid=host",
		"--user=0", "--read-only", "--security-opt=no-new-privileges", "--cap-drop=ALL",
		"--cap-add=DAC_OVERRIDE", "--cap-add=SYS_ADMIN", "--cap-add=SYS_CHROOT", "--cap-add=SYS_PTRACE",
		"--volume=/:/host:ro,rslave", "--volume=/var/lib/gcu-node-agent:/var/lib/gcu-node-agent", "--volume=/run/gcu-node-agent:/run/gcu-node-agent",
		"--volume=/var/log/topscloud/gcu-operator:/var/log/topscloud/gcu-operator", "--entrypoint=/usr/bin/node-agent", operatorImage,
		"--kubeconfig=/host/etc/gcu-node-agent/kubeconfig", "--node-name=" + dockerNode, "--container-runtime=docker", "--first-contact-spread=0s"},
		handOver()...)...)
	s.on(dockerNode, "docker", "run", "--detach", "--name="+bystander, "--restart=always", "--entrypoint=/bin/sh", workloadImage,
		"-c", "trap 'exit 0' TERM; while :; do /bin/busybox sleep 0.5; done")
}

// leavesTheContainer checks that a command that the agent's container hands over to the node is in the cgroups of the
// node's first process: with those of the container, an engine that it starts would be killed with the container.
func (s *stage) leavesTheContainer() {
	s.t.Helper()
	const cgroups = "cat /proc/self/cgroup && echo --- && cat /proc/1/cgroup"
	own, first, _ := strings.Cut(s.on(dockerNode, "docker", "exec", agentContainer, "/usr/bin/node-agent", "host-exec", "/bin/sh", "-c", cgroups), "---\n")
	if own == "" || own != first {
		s.t.Errorf("a command of the node runs in the cgroups\n%s, want those of process 1:\n%s", own, first)
	}
}

// configureDocker overwrites daemon.json and restarts docker, like an administrator. It
// restarts the agent too, so that its report is not stale.
func (s *stage) configureDocker(config string) {
	s.t.Helper()
	s.writeDockerConfig(config)
	s.on(dockerNode, "/etc/init.d/docker", "restart")
	s.on(dockerNode, "docker", "restart", agentContainer)
}

func (s *stage) writeDockerConfig(config string) {
	s.t.Helper()
	_, err := s.OnNode(s.ctx, dockerNode, strings.NewReader(config), "tee", "/etc/docker/daemon.json")
	check(s.t, err)
}

// dockerNeedsRestart waits until the agent reports that docker lacks the desired default
// runtime, and whether a restart would stop its containers.
func (s *stage) dockerNeedsRestart(stops bool) {
	s.t.Helper()
	s.eventually("the agent tells of docker", func() error {
		host := s.upgrade(dockerNode).Status.Host
		if host == nil || host.Runtime == nil {
			return fmt.Errorf("it tells of %+v", host)
		}
		if r := host.Runtime; r.Engine != "docker" || r.Default != "runc" || r.RestartStopsContainers == nil || *r.RestartStopsContainers != stops {
			return fmt.Errorf("it tells of %+v", *r)
		}
		return nil
	})
}

// inDocker returns docker's data of a running container: its id, its process with its
// start time, and how often docker restarted it after it had exited.
func (s *stage) inDocker(name string) (id, process, restarts string) {
	s.t.Helper()
	fields := strings.Fields(s.on(dockerNode, "docker", "inspect",
		"--format={{.State.Running}} {{.Id}} {{.State.Pid}}/{{.State.StartedAt}} {{.RestartCount}}", name))
	if len(fields) != 4 || fields[0] != "true" {
		s.t.Fatalf("container %s is %q", name, fields)
	}
	return fields[1], fields[2], fields[3]
}
