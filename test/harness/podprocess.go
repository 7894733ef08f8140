package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// PodProcess returns the id, on this machine, of the process that runs a program in a pod
// of a real node: the node is a container of this machine, which sees all that runs there.
// No such process, or more than one, is an error.
func PodProcess(pod *corev1.Pod, program string) (int, error) {
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return 0, err
	}
	var found []int
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(string(comm)) != program {
			continue // it has ended, or is something else
		}
		// The kubelet puts the UID of the pod into the names of its groups.
		groups, err := os.ReadFile(filepath.Join(filepath.Dir(name), "cgroup"))
		if err != nil || !strings.Contains(string(groups), string(pod.UID)) {
			continue
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil {
			return 0, err
		}
		found = append(found, id)
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("pod %s has %d processes of %s: %v", pod.Name, len(found), program, found)
	}
	return found[0], nil
}
