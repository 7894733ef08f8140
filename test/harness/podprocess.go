package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// PodProcess returns this machine's id of the process that runs a program in a pod of a
// real node, which is a container on this machine. It is an error if there is no such
// process or more than one.
func PodProcess(pod *corev1.Pod, program string) (int, error) {
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return 0, err
	}
	var found []int
	for _, name := range names {
		comm, err := os.ReadFile(name)
		if err != nil || strings.TrimSpace(string(comm)) != program {
			continue // it has exited, or is another program
		}
		// The names of the kubelet's cgroups contain the pod's UID.
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
