package main

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// lostNode is taken offline and brought back, liveNode stays online.
const lostNode, liveNode = "node-0003", "node-0004"

func podTemplate(labels map[string]string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "init", Image: "example/init:1"}},
			Containers:     []corev1.Container{{Name: "main", Image: "example/main:1"}},
		},
	}
}

func daemonSet(name string) *appsv1.DaemonSet {
	labels := map[string]string{"app": name}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: podTemplate(labels),
		},
	}
}

func (r *running) daemonSetReady(name string, want int32) func(context.Context) string {
	return func(ctx context.Context) string {
		ds, err := r.client.AppsV1().DaemonSets("default").Get(ctx, name, get)
		if err != nil {
			return err.Error()
		}
		if ds.Status.NumberReady != want || ds.Status.CurrentNumberScheduled != want {
			return fmt.Sprintf("%s: %d of %d pods are Ready", name, ds.Status.NumberReady, want)
		}
		return ""
	}
}

func (r *running) podReady(name string, want corev1.ConditionStatus) func(context.Context) string {
	return func(ctx context.Context) string {
		pod, err := r.client.CoreV1().Pods("default").Get(ctx, name, get)
		if err != nil {
			return err.Error()
		}
		if c := condition(pod, corev1.PodReady); c == nil || c.Status != want {
			return fmt.Sprintf("%s: Ready is %v, want %s", name, c, want)
		}
		return ""
	}
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i, c := range pod.Status.Conditions {
		if c.Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func podsOn(t *testing.T, r *running, node string) []corev1.Pod {
	t.Helper()
	pods, err := r.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{
		FieldSelector: "spec.nodeName=" + node, LabelSelector: "app in (demo, bystander)"})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

func podOf(t *testing.T, r *running, node, app string) *corev1.Pod {
	t.Helper()
	for _, pod := range podsOn(t, r, node) {
		if pod.Labels["app"] == app {
			return &pod
		}
	}
	t.Fatalf("no pod of %s on %s", app, node)
	return nil
}

func checkDaemonSet(t *testing.T, r *running) {
	for _, name := range []string{"demo", "bystander"} {
		if _, err := r.client.AppsV1().DaemonSets("default").Create(t.Context(), daemonSet(name), create); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, r.daemonSetReady("demo", 5))
	eventually(t, r.daemonSetReady("bystander", 5))
	pod := podOf(t, r, lostNode, "demo")
	if pod.Status.PodIP == "" || pod.Status.StartTime == nil || !pod.Status.ContainerStatuses[0].Ready ||
		pod.Status.InitContainerStatuses[0].State.Terminated == nil {
		t.Errorf("the pod's status is not a running pod's: %+v", pod.Status)
	}
}

// checkCustomCondition sets a condition on a pod that is not yet Ready, and on a pod
// whose node will go offline; checkNodeOn checks the latter.
func checkCustomCondition(t *testing.T, r *running) {
	template := podTemplate(nil)
	template.Annotations = map[string]string{"testcluster/pod-ready-delay": "2s"}
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name = "custom"
	if _, err := r.client.CoreV1().Pods("default").Create(t.Context(), pod, create); err != nil {
		t.Fatal(err)
	}
	bystander := podOf(t, r, lostNode, "bystander").Name
	for _, name := range []string{pod.Name, bystander} {
		patch := []byte(`{"status":{"conditions":[{"type":"PodNeedUpgrade","status":"True"}]}}`)
		_, err := r.client.CoreV1().Pods("default").Patch(t.Context(), name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, r.podReady(pod.Name, corev1.ConditionTrue))
	checkNeedUpgrade(t, r, pod.Name)
	checkNeedUpgrade(t, r, bystander)
}

func checkNeedUpgrade(t *testing.T, r *running, name string) {
	t.Helper()
	pod, err := r.client.CoreV1().Pods("default").Get(t.Context(), name, get)
	if err != nil {
		t.Fatal(err)
	}
	if c := condition(pod, "PodNeedUpgrade"); c == nil || c.Status != corev1.ConditionTrue {
		t.Errorf("%s: got conditions %v, want PodNeedUpgrade to be kept", name, pod.Status.Conditions)
	}
}

// checkAnnotatedDelay compares the API server's timestamps, in whole seconds.
func checkAnnotatedDelay(t *testing.T, r *running) {
	const delay = 5 * time.Second // the cluster's default is at most one second
	template := podTemplate(nil)
	template.Annotations = map[string]string{
		"testcluster/pod-ready-delay":     delay.String(),
		"testcluster/pod-ready-delay-max": (delay + time.Second).String(),
	}
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Name = "slow"
	if _, err := r.client.CoreV1().Pods("default").Create(t.Context(), pod, create); err != nil {
		t.Fatal(err)
	}
	eventually(t, r.podReady(pod.Name, corev1.ConditionTrue))
	pod, err := r.client.CoreV1().Pods("default").Get(t.Context(), pod.Name, get)
	if err != nil {
		t.Fatal(err)
	}
	if took := condition(pod, corev1.PodReady).LastTransitionTime.Sub(pod.CreationTimestamp.Time); took < delay-time.Second {
		t.Errorf("the pod was Ready after %s, want %s at least", took, delay)
	}
}

func checkBehaviors(t *testing.T, r *running) {
	for _, behavior := range []string{"never-ready", "crash-loop", "crash-there", "spared"} {
		template := podTemplate(map[string]string{"testcluster/behavior": behavior})
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Name = behavior
		switch pod.Spec.Containers[0].Image = "app:v2-crashes-on-" + liveNode; behavior {
		case "crash-loop": // by its image
			pod.Labels, pod.Spec.Containers[0].Image = nil, "app:v2-crashes"
		case "crash-there":
			pod.Labels, pod.Spec.NodeName = nil, liveNode
		case "spared":
			pod.Labels, pod.Spec.NodeName = nil, "node-0001"
		}
		if _, err := r.client.CoreV1().Pods("default").Create(t.Context(), pod, create); err != nil {
			t.Fatal(err)
		}
	}
	template := podTemplate(nil)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{Template: template}}
	if _, err := r.client.BatchV1().Jobs("default").Create(t.Context(), job, create); err != nil {
		t.Fatal(err)
	}
	// Two restarts take longer than becoming Ready.
	eventually(t, r.crashed("crash-loop", 2))
	eventually(t, r.crashed("crash-there", 2))
	eventually(t, r.podReady("spared", corev1.ConditionTrue))
	for _, name := range []string{"never-ready", "crash-loop", "crash-there"} {
		pod, err := r.client.CoreV1().Pods("default").Get(t.Context(), name, get)
		if err != nil {
			t.Fatal(err)
		}
		ready := condition(pod, corev1.PodReady)
		if pod.Status.Phase != corev1.PodRunning || ready == nil || ready.Status != corev1.ConditionFalse || pod.Status.ContainerStatuses[0].Ready {
			t.Errorf("%s: got status %+v, want Running and not Ready", name, pod.Status)
		}
	}
	eventually(t, func(ctx context.Context) string {
		job, err := r.client.BatchV1().Jobs("default").Get(ctx, "job", get)
		if err != nil {
			return err.Error()
		}
		if job.Status.Succeeded != 1 {
			return "the Job has not completed"
		}
		return ""
	})
}

func (r *running) crashed(name string, times int32) func(context.Context) string {
	return func(ctx context.Context) string {
		pod, err := r.client.CoreV1().Pods("default").Get(ctx, name, get)
		if err != nil {
			return err.Error()
		}
		if len(pod.Status.ContainerStatuses) != 1 {
			return "no container has run"
		}
		c := pod.Status.ContainerStatuses[0]
		if c.RestartCount < times || c.State.Waiting == nil || c.State.Waiting.Reason != "CrashLoopBackOff" {
			return fmt.Sprintf("got container status %+v, want %d crashes", c, times)
		}
		return ""
	}
}

func checkAccount(t *testing.T, r *running) {
	path := filepath.Join(t.TempDir(), "account.kubeconfig")
	r.must(t, "kubeconfig", "--dir", r.dir, "--serviceaccount", "default/default", "--output", path)
	client := clientFor(t, path)
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want the ServiceAccount to be known and forbidden to list nodes", err)
	}
	r.must(t, "kubeconfig", "--dir", r.dir, "--serviceaccount", "default/default", "--node", lostNode, "--output", path)
	self, err := clientFor(t, path).AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, create)
	if err != nil {
		t.Fatal(err)
	}
	if got := self.Status.UserInfo.Extra["authentication.kubernetes.io/node-name"]; len(got) != 1 || got[0] != lostNode {
		t.Errorf("the token names nodes %q, want %s", got, lostNode)
	}
	r.mustFail(t, "getting node node-0099 to bind a token to",
		"kubeconfig", "--dir", r.dir, "--serviceaccount", "default/default", "--node", "node-0099")
	r.mustFail(t, "requesting a token for ServiceAccount default/nobody",
		"kubeconfig", "--dir", r.dir, "--serviceaccount", "default/nobody")
}
