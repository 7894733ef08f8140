//go:build kind

package kind

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/test/harness"
)

const (
	// patience is the time limit of a step; a cluster may have to pull images, and notices after 40 s
	// by default that a node is offline.
	patience = 5 * time.Minute
	system   = "kube-system"
	// kindName is the name in kind.yaml.
	kindName = "gcu-operator"
)

// stage is the cluster of the stories, and the nodes that run their pods.
type stage struct {
	*harness.Cluster
	t   *testing.T
	ctx context.Context
	// nodes are the schedulable nodes; away is the one of them that stories take offline.
	nodes []string
	away  string
}

// TestStories tells all stories on one cluster.
func TestStories(t *testing.T) {
	ctx, stop := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetLogger(logr.Discard())
	project, err := harness.FindProject()
	check(t, err)
	s := &stage{Cluster: cluster(ctx, t, project), t: t, ctx: ctx}
	s.install()
	for _, story := range []struct {
		name string
		tell func(*stage)
	}{
		{"contract 99: OpenYurt's first example: nodes that are offline are skipped, and upgraded when they return", (*stage).rolling},
		{"contract 100: OpenYurt's second example: a person at a node upgrades a pod with curl", (*stage).ota},
		{"the default gr becomes 5/5, is upgraded while a node is offline, and is removed", (*stage).resource},
	} {
		ok := t.Run(story.name, func(t *testing.T) {
			told := *s
			told.t = t
			story.tell(&told)
		})
		if !ok {
			return // the next story needs the state that this one leaves
		}
	}
}

// cluster takes the cluster of KUBECONFIG with its hooks, or makes one of kind.
func cluster(ctx context.Context, t *testing.T, project harness.Project) *harness.Cluster {
	t.Helper()
	kubeconfig := os.Getenv("KUBECONFIG")
	hooks := harness.Hooks{Load: os.Getenv("LOAD"), Disconnect: os.Getenv("DISCONNECT"), Reconnect: os.Getenv("RECONNECT"), OnNode: os.Getenv("ON_NODE")}
	if kubeconfig == "" {
		kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
		run(ctx, t, "kind", "create", "cluster", "--config", project.Path("test", "kind", "kind.yaml"), "--kubeconfig", kubeconfig, "--wait", "2m")
		t.Cleanup(func() { run(context.WithoutCancel(ctx), t, "kind", "delete", "cluster", "--name", kindName) })
		hooks = harness.Hooks{Load: project.Path("test", "kind", "hooks", "kind-load"), Disconnect: "docker network disconnect kind",
			Reconnect: "docker network connect kind", OnNode: "docker exec --interactive"}
	}
	kubectl := os.Getenv("KUBECTL")
	if kubectl == "" {
		kubectl = "kubectl"
	}
	c, err := harness.TakeCluster(project, kubeconfig, kubectl, hooks)
	check(t, err)
	check(t, c.LoadImages(ctx, os.Stderr, project.Path("bin", "images", "operator.tar"), project.Path("bin", "images", "standins.tar")))
	return c
}

// run runs a program, which must succeed.
func run(ctx context.Context, t *testing.T, argv ...string) {
	t.Helper()
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	if err := command.Run(); err != nil {
		t.Fatalf("%s: %v", strings.Join(argv, " "), err)
	}
}

// install installs the operator, and removes it at the end of the test.
func (s *stage) install() {
	s.t.Helper()
	operator := cmp.Or(os.Getenv("OPERATOR"), "test/kind/operator")
	s.kubectl("apply", "--server-side", "-k", operator)
	s.t.Cleanup(func() {
		removed := *s
		removed.ctx = context.WithoutCancel(s.ctx)
		removed.kubectl("delete", "-k", operator, "--ignore-not-found", "--wait=true")
	})
	s.kubectl("rollout", "status", "deployment/gcu-operator", "--namespace="+system, "--timeout=5m")
	var nodes corev1.NodeList
	check(s.t, s.Client.List(s.ctx, &nodes))
	manager := s.podsOf(system, "app.kubernetes.io/name", "gcu-operator")[0].Spec.NodeName
	s.nodes, s.away = place(nodes.Items, manager)
	if len(s.nodes) < 2 || s.away == "" {
		s.t.Fatalf("the stories need two schedulable nodes, one of them without control plane and manager, which runs on %s; there are %v", manager, s.nodes)
	}
}

// kubectl runs kubectl, which must succeed.
func (s *stage) kubectl(args ...string) string {
	s.t.Helper()
	output, err := s.Kubectl(s.ctx, args...)
	check(s.t, err)
	return output
}

// onNode runs a program on a node, which must succeed.
func (s *stage) onNode(node string, argv ...string) string {
	s.t.Helper()
	output, err := s.OnNode(s.ctx, node, nil, argv...)
	check(s.t, err)
	return output
}

// eventually polls is until it returns nil.
func (s *stage) eventually(what string, is func() error) {
	s.t.Helper()
	s.Await(s.ctx, s.t, patience, what, is,
		[]string{"get", "nodes,pods,gr,dro,nu", "--all-namespaces", "--output=wide"}, []string{"logs", "--namespace=" + system, "deployment/gcu-operator", "--tail=40"})
}

// podsOf returns the pods with a label that are not being deleted.
func (s *stage) podsOf(namespace, key, value string) []corev1.Pod {
	s.t.Helper()
	var list corev1.PodList
	check(s.t, s.Client.List(s.ctx, &list, client.InNamespace(namespace), client.MatchingLabels{key: value}))
	var pods []corev1.Pod
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// runOn returns nil when pods are available on exactly these nodes, with these images.
func (s *stage) runOn(namespace, key, value string, images map[string]string) error {
	pods := s.podsOf(namespace, key, value)
	if len(pods) != len(images) {
		return fmt.Errorf("there are %d pods, want %d", len(pods), len(images))
	}
	for _, pod := range pods {
		if have, want := pod.Spec.Containers[0].Image, images[pod.Spec.NodeName]; have != want {
			return fmt.Errorf("pod %s on %s has image %s, want %s", pod.Name, pod.Spec.NodeName, have, want)
		}
		if pod.Spec.NodeName != s.away && !has(&pod, corev1.PodReady) {
			return fmt.Errorf("pod %s is not Ready", pod.Name)
		}
	}
	return nil
}

// has reports whether a condition of a pod is True.
func has(pod *corev1.Pod, condition corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == condition {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
