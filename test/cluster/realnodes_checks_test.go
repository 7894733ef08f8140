//go:build realnodes

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const probeImage = "example/probe:v1"

func (r *realNodes) nodesAre(ready bool, names ...string) func(context.Context) string {
	return func(ctx context.Context) string {
		for _, name := range names {
			n, err := r.client.CoreV1().Nodes().Get(ctx, name, get)
			if err != nil {
				return err.Error()
			}
			if nodeIs(n, corev1.ConditionTrue) != ready {
				return fmt.Sprintf("%s: conditions %v", name, n.Status.Conditions)
			}
		}
		return ""
	}
}

func checkRealNodes(t *testing.T, r *realNodes) {
	nodes, err := r.client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "feature.node.kubernetes.io/pci-1200_1e36.present=true"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, n := range nodes.Items {
		names = append(names, n.Name+" "+n.Labels[corev1.LabelTopologyZone])
		if !nodeIs(&n, corev1.ConditionTrue) || len(n.Spec.Taints) != 0 {
			t.Errorf("%s: conditions %v, taints %v; want Ready without taints", n.Name, n.Status.Conditions, n.Spec.Taints)
		}
	}
	if want := []string{"node-0001 zone-a", "real-1 zone-a", "real-2 zone-b", "real-3 zone-a"}; !slices.Equal(names, want) {
		t.Errorf("got nodes %q, want %q", names, want)
	}
}

// probePod is a pod that counts in /var/lib/probe of its node.
func probePod(node string) *corev1.Pod {
	kind := corev1.HostPathDirectoryOrCreate
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "probe-" + node},
		Spec: corev1.PodSpec{
			NodeName: node,
			Containers: []corev1.Container{{
				Name: "probe", Image: probeImage, ImagePullPolicy: corev1.PullNever,
				VolumeMounts: []corev1.VolumeMount{{Name: "out", MountPath: "/out"}},
			}},
			Volumes: []corev1.Volume{{Name: "out", VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/probe", Type: &kind},
			}}},
			// An offline node must keep its pods during the test.
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
}

func (r *realNodes) probe(t *testing.T, node string) *corev1.Pod {
	t.Helper()
	pod, err := r.client.CoreV1().Pods("default").Get(t.Context(), "probe-"+node, get)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// count reads the probe's counter from the node's disk.
func (r *realNodes) count(node string) int {
	data, _ := os.ReadFile(filepath.Join(r.dir, "nodes", node, "root/var/lib/probe/count"))
	n, _ := strconv.Atoi(string(data))
	return n
}

func (r *realNodes) countsOn(node string) func(context.Context) string {
	before := r.count(node)
	return func(context.Context) string {
		if now := r.count(node); now < before+5 {
			return fmt.Sprintf("the probe on %s counted from %d to %d", node, before, now)
		}
		return ""
	}
}

func checkRealPods(t *testing.T, r *realNodes) {
	program, archive := filepath.Join(t.TempDir(), "probe"), filepath.Join(t.TempDir(), "probe.tar")
	cmd := exec.Command("go", "build", "-trimpath", "-o", program, "./testdata/probe")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the probe: %v\n%s", err, out)
	}
	r.must(t, "build-image", "--tag", probeImage, "--output", archive, "--entrypoint", "/usr/bin/probe", program+":/usr/bin/probe")
	r.must(t, "load-image", "--dir", r.dir, "--node", "real-1", archive)
	r.must(t, "load-image", "--dir", r.dir, archive)
	for _, node := range []string{"real-1", "real-2", "real-3"} {
		if _, err := r.client.CoreV1().Pods("default").Create(t.Context(), probePod(node), create); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range []string{"real-1", "real-2", "real-3"} {
		eventually(t, r.podReady("probe-"+node, corev1.ConditionTrue))
		eventually(t, func(ctx context.Context) string {
			log, err := r.client.CoreV1().Pods("default").GetLogs("probe-"+node, &corev1.PodLogOptions{}).DoRaw(ctx)
			if err != nil || !strings.Contains(string(log), "I am system:serviceaccount:default:default\n") {
				return fmt.Sprintf("the log of the probe on %s is %q, %v", node, log, err)
			}
			return ""
		})
		eventually(t, r.countsOn(node))
	}
}

func checkPodNetwork(t *testing.T, r *realNodes) {
	from, to := r.probe(t, "real-1").Status.PodIP, r.probe(t, "real-2").Status.PodIP
	eventually(t, func(ctx context.Context) string {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+from+":8080/?url=http://"+to+":8080/", nil)
		if err != nil {
			return err.Error()
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err.Error()
		}
		defer response.Body.Close()
		if answer, err := io.ReadAll(response.Body); err != nil || string(answer) != "hello from probe-real-2" {
			return fmt.Sprintf("%s answers %q through %s (%v)", to, answer, from, err)
		}
		return ""
	})
}

func checkCutOff(t *testing.T, r *realNodes) {
	before := r.probe(t, "real-1")
	out := r.must(t, "node-off", "--dir", r.dir, "real-1", "node-0001")
	if !strings.Contains(out, "real-1 is NotReady") || !strings.Contains(out, "node-0001 is NotReady") {
		t.Errorf("node-off printed %q", out)
	}
	eventually(t, r.nodesAre(false, "real-1", "node-0001"))
	eventually(t, r.countsOn("real-1"))
	if out := r.must(t, "status", "--dir", r.dir); !strings.Contains(out, "cut off") {
		t.Errorf("status does not report the cut link:\n%s", out)
	}
	r.must(t, "node-on", "--dir", r.dir, "real-1", "node-0001")
	eventually(t, r.podReady("probe-real-1", corev1.ConditionTrue))
	after := r.probe(t, "real-1")
	if after.UID != before.UID || after.Status.ContainerStatuses[0].ContainerID != before.Status.ContainerStatuses[0].ContainerID {
		t.Error("the pod was replaced or restarted, want the same container Ready again")
	}
}

func checkPowerLoss(t *testing.T, r *realNodes) {
	before, bootID := r.probe(t, "real-2"), r.bootID(t, "real-2")
	_, all := r.processes(t, "real-2")
	if len(all) < 5 {
		t.Fatalf("found only %d processes on real-2", len(all))
	}
	mark := filepath.Join(r.dir, "nodes/real-2/root/var/lib/probe/mark")
	if err := os.WriteFile(mark, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.must(t, "node-kill", "--dir", r.dir, "--wait=false", "real-2")
	for pid, start := range all {
		if name, now, alive := processStart(pid); alive && now == start {
			t.Errorf("process %d %s survived the power loss", pid, name)
		}
	}
	r.must(t, "node-kill", "--dir", r.dir, "real-2")
	r.mustFail(t, "has no power", "node-exec", "--dir", r.dir, "real-2", "--", "true")
	r.mustFail(t, "has no power", "node-off", "--dir", r.dir, "real-2")
	r.must(t, "node-start", "--dir", r.dir, "real-2")
	if r.bootID(t, "real-2") == bootID {
		t.Error("the node's boot id has not changed")
	}
	eventually(t, func(ctx context.Context) string {
		pod := r.probe(t, "real-2")
		if pod.UID != before.UID || pod.Status.ContainerStatuses[0].RestartCount == 0 {
			return fmt.Sprintf("the pod is %s with status %+v, want the same pod with a new container", pod.UID, pod.Status.ContainerStatuses)
		}
		return r.podReady(pod.Name, corev1.ConditionTrue)(ctx)
	})
	eventually(t, r.countsOn("real-2"))
	if out := r.must(t, "node-exec", "--dir", r.dir, "real-2", "--", "cat", "/var/lib/probe/mark"); out != "kept" {
		t.Errorf("the disk has %q after the boot, want what was on it", out)
	}
}

func (r *realNodes) bootID(t *testing.T, node string) string {
	t.Helper()
	n, err := r.client.CoreV1().Nodes().Get(t.Context(), node, get)
	if err != nil {
		t.Fatal(err)
	}
	return n.Status.NodeInfo.BootID
}

func checkRefusals(t *testing.T, r *realNodes) {
	r.mustFail(t, "node-kill is for real nodes", "node-kill", "--dir", r.dir, "real-1", "node-0001")
	r.mustFail(t, "no such node: real-9", "node-off", "--dir", r.dir, "real-1", "real-9")
	r.mustFail(t, "node-0001 is no real node", "load-image", "--dir", r.dir, "--node", "node-0001", "x.tar")
	r.mustFail(t, "no such file", "load-image", "--dir", r.dir, "x.tar")
	if problem := r.nodesAre(true, "real-1", "node-0001")(t.Context()); problem != "" {
		t.Errorf("a refused command changed a node: %s", problem)
	}
}

// checkDocker has a container request a restart of docker, which kills the container.
func checkDocker(t *testing.T, r *realNodes) {
	on := func(argv ...string) string {
		return strings.TrimSpace(r.must(t, append([]string{"node-exec", "--dir", r.dir, "real-3", "--"}, argv...)...))
	}
	before, daemon := r.probe(t, "real-3"), on("cat", "/run/docker.pid")
	on("docker", "run", "--detach", "--name", "victim", "--network", "host", "--entrypoint", "/usr/bin/probe", "--volume", "/var/lib/victim:/out", "--env", "KUBERNETES_SERVICE_HOST=", probeImage)
	on("docker", "run", "--detach", "--name", "predictor", "--pid", "host", "--cap-add", "SYS_ADMIN", "--cap-add", "SYS_PTRACE", "--security-opt", "seccomp=unconfined",
		"--volume", "/usr:/usr", "--volume", "/usr/lib:/lib", "--volume", "/usr/lib64:/lib64",
		"--entrypoint", "/usr/bin/nsenter", probeImage, "--target=1", "--all", "/etc/init.d/docker", "restart")
	eventually(t, func(context.Context) string {
		now, _, err := r.run("node-exec", "--dir", r.dir, "real-3", "--", "cat", "/run/docker.pid")
		if err != nil || strings.TrimSpace(now) == daemon {
			return fmt.Sprintf("docker is process %q (%v), want another than %s", now, err, daemon)
		}
		return ""
	})
	eventually(t, func(context.Context) string {
		running, _, err := r.run("node-exec", "--dir", r.dir, "real-3", "--", "docker", "ps", "--quiet")
		if err != nil || running != "" {
			return fmt.Sprintf("docker runs %q (%v), want nothing: without live-restore its containers end", running, err)
		}
		return ""
	})
	daemon = on("cat", "/run/docker.pid")
	on("/etc/init.d/docker", "restart")
	if on("cat", "/run/docker.pid") == daemon {
		t.Error("docker was not restarted")
	}
	on("docker", "version")
	after := r.probe(t, "real-3")
	if sameContainer := after.Status.ContainerStatuses[0].ContainerID == before.Status.ContainerStatuses[0].ContainerID; after.UID != before.UID || !sameContainer {
		t.Error("the pod on containerd was restarted with docker")
	}
}
