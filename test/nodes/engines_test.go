package nodes

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// engine is the state of a container engine, read on its node.
type engine struct {
	name string
	// process is its id and start time.
	process string
	// starts is the number of starts in its log.
	starts int
}

// firstLine is the first log line of a starting engine.
var firstLine = map[string]string{"docker": `msg="Starting up"`, "containerd": `msg="starting containerd"`}

// engine returns the state of an engine of a node, which must be running.
func (s *stage) engine(node, name string) engine {
	s.t.Helper()
	const look = `pid=$(cat /run/service/$1/supervise/pid) && stat=$(cat /proc/$pid/stat) && set -- ${stat##*)} && echo "$pid/${20}"`
	return engine{name, strings.TrimSpace(s.on(node, "sh", "-c", look, "sh", name)), s.starts(node, name)}
}

// serviceLog returns the log of a node's service. It is in the folder of the cluster, so
// it can be read without running a program on the node.
func (s *stage) serviceLog(node, name string) string {
	s.t.Helper()
	log, err := os.ReadFile(filepath.Join(s.Dir, "logs", node, name+".log"))
	check(s.t, err)
	return string(log)
}

func (s *stage) starts(node, engine string) int {
	s.t.Helper()
	return strings.Count(s.serviceLog(node, engine), firstLine[engine])
}

// wasRestarted checks that an engine was restarted a number of times since before.
func (s *stage) wasRestarted(times int, node string, before engine) {
	s.t.Helper()
	now := s.engine(node, before.name)
	if now.starts != before.starts+times || (now.process == before.process) != (times == 0) {
		s.t.Errorf("%s of %s is %+v, was %+v, want %d restarts", before.name, node, now, before, times)
	}
}

// processes returns the processes of a node's running pod containers, by container id.
func (s *stage) processes(node string) map[string]string {
	s.t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(s.on(node, "ctr", "--namespace=k8s.io", "tasks", "list")) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "RUNNING" {
			all[fields[0]] = fields[1]
		}
	}
	return all
}

// containers returns the containers of all pods from the API server, with their processes
// on the nodes, by pod UID.
func (s *stage) containers() map[types.UID]string {
	s.t.Helper()
	var pods corev1.PodList
	check(s.t, s.Client.List(s.ctx, &pods))
	all := map[types.UID]string{}
	for _, node := range allNodes {
		processes := s.processes(node)
		for _, pod := range pods.Items {
			if pod.Spec.NodeName != node || pod.DeletionTimestamp != nil {
				continue
			}
			var of []string
			for _, c := range pod.Status.ContainerStatuses {
				id := strings.TrimPrefix(c.ContainerID, "containerd://")
				of = append(of, fmt.Sprintf("%s: process %s of container %s, begun %d times anew", c.Name, processes[id], id, c.RestartCount))
			}
			all[pod.UID] = pod.Namespace + "/" + pod.Name + " on " + node + ": " + strings.Join(of, ", ")
		}
	}
	return all
}

// podsRanOn checks that every container of the pods that existed before still runs in the
// same process. All pods must still exist except those of the training, the driver, the toolkit, and
// those that use the device, which are replaced after a restart.
func (s *stage) podsRanOn(before map[types.UID]string) {
	s.t.Helper()
	after := s.containers()
	replaced := []string{"training", driverSet, toolkitSet, pluginSet, exporterSet, gfdSet}
	gone := 0
	for uid, was := range before {
		switch now, found := after[uid]; {
		case !found && slices.ContainsFunc(replaced, func(owner string) bool { return strings.Contains(was, "/"+owner+"-") }):
			gone++
		case now != was:
			s.t.Errorf("before: %s\nnow:    %s", was, now)
		}
	}
	if want := len(replaced) * len(allNodes); gone != want {
		s.t.Errorf("%d pods were replaced, want %d", gone, want)
	}
}
