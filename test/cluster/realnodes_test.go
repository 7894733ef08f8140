//go:build realnodes

package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRealNodes starts a cluster of real nodes and tests its features. Each step
// depends on the previous ones.
func TestRealNodes(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("real nodes, that is kubelets, containerd, docker, cut links, power loss and the removal of it all, need root")
	}
	tc := build(t)
	if unchanged(t, tc) {
		return
	}
	sysctls := readSysctls(t)
	abandoned := tc.interruptedUp(t, "abandoned")
	abandoned.forget(t)

	r := &realNodes{running: tc.up(t, "real", "--nodes", "1", "--zones", "2", "--real-nodes", "3", "--docker-node", "real-3")}
	r.number = numberOf(t, r.dir)
	steps := []struct {
		name string
		run  func(*testing.T, *realNodes)
	}{
		{"removes the resources of a cluster whose directory is gone", func(t *testing.T, r *realNodes) {
			abandoned.mustHaveEnded(t)
			if r.number != abandoned.number {
				t.Errorf("the number is %d, want %d, which is free again", r.number, abandoned.number)
			}
		}},
		{"makes simulated and real nodes Ready, with the labels of a GCU node", checkRealNodes},
		{"runs a pod from an image of its own, that reaches the API server with its token", checkRealPods},
		{"lets pods of two nodes reach each other", checkPodNetwork},
		{"disconnects a node: NotReady, containers keep running; and reconnects it with the same pod", checkCutOff},
		{"powers a node off: all processes are killed; boots it with its disk", checkPowerLoss},
		{"rejects invalid actions on nodes", checkRefusals},
		{"restarts docker for a container that is killed by the restart, without touching pods", checkDocker},
		{"removes a cluster whose start was killed and leaves another one alone", checkInterruptedUp},
		{"is removed completely when partly dead", checkRealDown},
		{"leaves the machine's settings unchanged", func(t *testing.T, _ *realNodes) {
			if after := readSysctls(t); after != sysctls {
				t.Errorf("before:\n%safter:\n%s", sysctls, after)
			}
		}},
	}
	for _, step := range steps {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, r) }) {
			t.Fatalf("the following steps depend on this one; logs of the cluster:\n%s", r.logs(t))
		}
	}
}

// checkInterruptedUp kills the start of a second cluster, and some of its processes.
func checkInterruptedUp(t *testing.T, r *realNodes) {
	second := r.interruptedUp(t, "interrupted")
	if second.number == r.number {
		t.Fatalf("both clusters have number %d", r.number)
	}
	r.mustFail(t, "must not contain a comma", "up", "--dir", second.dir+",", "--real-nodes", "1")
	r.mustFail(t, "a cluster is in "+second.dir+" already", "up", "--dir", second.dir, "--real-nodes", "1")
	if err := syscall.Kill(second.pids(t)["etcd"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second.must(t, "down", "--dir", second.dir)
	second.mustBeGone(t)
	if left := processesOf(t, second.dir); len(left) != 0 {
		t.Errorf("down left processes: %q", left)
	}
	eventually(t, r.nodesAre(true, "real-1", "real-2", "real-3"))
}

func checkRealDown(t *testing.T, r *realNodes) {
	first, _ := r.processes(t, "real-1")
	for _, pid := range []int{r.pids(t)["kube-scheduler"], first} {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	r.remember(t)
	if len(r.seen) < 10 { // two nodes run: a supervisor with two or three services each, and the pods
		t.Fatalf("found only %d processes on the nodes", len(r.seen))
	}
	r.must(t, "down", "--dir", r.dir)
	r.mustBeGone(t)
	if _, err := os.Stat(r.dir); err == nil {
		t.Errorf("%s is still there", r.dir)
	}
}

func readSysctls(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, name := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes", "kernel/hostname", "net/ipv4/ip_forward"} {
		value, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(name + " " + string(value))
	}
	return all.String()
}
