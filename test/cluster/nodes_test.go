package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func checkNodes(t *testing.T, r *running) {
	nodes, err := r.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{
		LabelSelector: "feature.node.kubernetes.io/pci-1200_1e36.present=true",
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != 5 {
		t.Fatalf("got %d nodes with a GCU, want 5", len(nodes.Items))
	}
	for i, n := range nodes.Items {
		want := fmt.Sprintf("node-%04d", i+1)
		zone := []string{"zone-a", "zone-b"}[i%2]
		if n.Name != want || n.Labels[corev1.LabelHostname] != want || n.Labels[corev1.LabelTopologyZone] != zone {
			t.Errorf("got node %s with labels %v, want %s in %s", n.Name, n.Labels, want, zone)
		}
		if !nodeIs(&n, corev1.ConditionTrue) || len(n.Spec.Taints) != 0 {
			t.Errorf("%s: conditions %v, taints %v; want Ready without taints", n.Name, n.Status.Conditions, n.Spec.Taints)
		}
		if n.Status.Allocatable.Pods().Value() != 110 {
			t.Errorf("%s takes %s pods, want 110", n.Name, n.Status.Allocatable.Pods())
		}
	}
}

func nodeIs(n *corev1.Node, want corev1.ConditionStatus) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == want
		}
	}
	return false
}

func checkSecondUp(t *testing.T, r *running) {
	r.mustFail(t, "a cluster is in "+r.dir+" already", "up", "--dir", r.dir, "--nodes", "1")
	r.must(t, "status", "--dir", r.dir)
}

func checkUnknownNode(t *testing.T, r *running) {
	r.mustFail(t, "no such node: node-0099", "node-off", "--dir", r.dir, "node-0001", "node-0099")
	n, err := r.client.CoreV1().Nodes().Get(t.Context(), "node-0001", get)
	if err != nil {
		t.Fatal(err)
	}
	if n.Labels["testcluster/online"] != "true" {
		t.Error("node-0001 was changed although another name was invalid")
	}
}

func checkNodeOff(t *testing.T, r *running) {
	out := r.must(t, "node-off", "--dir", r.dir, lostNode)
	if !strings.HasPrefix(out, lostNode+" is NotReady") {
		t.Errorf("node-off printed %q", out)
	}
	n, err := r.client.CoreV1().Nodes().Get(t.Context(), lostNode, get)
	if err != nil {
		t.Fatal(err)
	}
	if !nodeIs(n, corev1.ConditionUnknown) {
		t.Errorf("%s: got conditions %v, want Ready Unknown", lostNode, n.Status.Conditions)
	}
	for _, pod := range podsOn(t, r, lostNode) {
		eventually(t, r.podReady(pod.Name, corev1.ConditionFalse))
	}
	victim := podOf(t, r, lostNode, "demo")
	if err := r.client.CoreV1().Pods("default").Delete(t.Context(), victim.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}); err != nil {
		t.Fatal(err)
	}
	// A pod on a live node, deleted later, is gone after the grace period; this one must
	// not be.
	other := podOf(t, r, liveNode, "demo")
	if err := r.client.CoreV1().Pods("default").Delete(t.Context(), other.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(ctx context.Context) string {
		if _, err := r.client.CoreV1().Pods("default").Get(ctx, other.Name, get); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("the pod on %s is still there (%v)", liveNode, err)
		}
		return ""
	})
	pod, err := r.client.CoreV1().Pods("default").Get(t.Context(), victim.Name, get)
	if err != nil {
		t.Fatalf("the pod on the lost node does not hang: %v", err)
	}
	if pod.DeletionTimestamp == nil {
		t.Error("the pod on the lost node is not Terminating")
	}
}

func checkNodeOn(t *testing.T, r *running) {
	victim, bystander := podOf(t, r, lostNode, "demo"), podOf(t, r, lostNode, "bystander")
	r.must(t, "node-on", "--dir", r.dir, lostNode)
	eventually(t, func(ctx context.Context) string {
		pod, err := r.client.CoreV1().Pods("default").Get(ctx, victim.Name, get)
		if err == nil {
			return "the deleted pod is still there, since " + pod.DeletionTimestamp.String()
		}
		return ""
	})
	eventually(t, r.podReady(bystander.Name, corev1.ConditionTrue))
	revived, err := r.client.CoreV1().Pods("default").Get(t.Context(), bystander.Name, get)
	if err != nil {
		t.Fatal(err)
	}
	if revived.UID != bystander.UID || revived.Status.ContainerStatuses[0].RestartCount != 0 {
		t.Error("the other pod was replaced or restarted, want the same one Ready again")
	}
	checkNeedUpgrade(t, r, bystander.Name)
	eventually(t, r.daemonSetReady("demo", 5))
}

func checkSideBySide(t *testing.T, first *running) {
	second := first.up(t, "second", "--nodes", "2")
	if _, err := second.client.CoreV1().Nodes().Get(t.Context(), "node-0005", get); err == nil {
		t.Error("the second cluster has the first one's nodes")
	}
	first.must(t, "status", "--dir", first.dir)
	second.must(t, "down", "--dir", second.dir)
	first.must(t, "status", "--dir", first.dir)
}

func checkDeadComponent(t *testing.T, r *running) {
	if err := syscall.Kill(r.pids(t)["kube-scheduler"], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(context.Context) string {
		if _, _, err := r.run("status", "--dir", r.dir); err == nil {
			return "status succeeds"
		}
		return ""
	})
	r.mustFail(t, "kube-scheduler (pid ", "status", "--dir", r.dir)
}

func checkDown(t *testing.T, r *running) {
	if found := processesOf(t, r.dir); len(found) < 3 {
		t.Fatalf("processesOf does not find the cluster's processes: %q", found)
	}
	mine := filepath.Join(r.dir, "mine.txt")
	if err := os.WriteFile(mine, []byte("not a cluster's"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.must(t, "down", "--dir", r.dir)
	if left := processesOf(t, r.dir); len(left) != 0 {
		t.Errorf("down left processes: %q", left)
	}
	entries, err := os.ReadDir(r.dir)
	if err != nil || len(entries) != 1 || entries[0].Name() != "mine.txt" {
		t.Errorf("got %v (%v) in the directory, want only the file that is not the cluster's", entries, err)
	}
	r.mustFail(t, "no cluster is in", "down", "--dir", r.dir)
}
