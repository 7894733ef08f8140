package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

const (
	// posts is the number of sequential requests, each for a pod of another DaemonSet.
	posts = 50
	// agentNode is the node of the agent.
	agentNode = "node-0001"
	// postTimeout limits the wait for one deletion.
	postTimeout = 30 * time.Second
)

// agentUse is the resource usage of one node agent, and the latency of its requests.
type agentUse struct {
	// cpu and writes during idle, the time in which nothing happened.
	idle   time.Duration
	cpu    time.Duration
	writes int
	// rss after idle, peak after all posts; bytes.
	rss, peak int64
	// answered and deleted are the times from a POST to its response and to the observed
	// deletion of its pod, sorted.
	answered, deleted []time.Duration
	// busy is the share of the machine's CPU in use before the case began.
	busy float64
}

// milliCPU returns the CPU usage of the idle agent, in thousandths of a CPU.
func (a agentUse) milliCPU() float64 { return 1000 * a.cpu.Seconds() / a.idle.Seconds() }

// measureAgent runs one node with a manager and an agent: the agent is idle for a
// while, and then gets requests for one pod after the other.
func measureAgent(ctx context.Context, project harness.Project, o options, r *report, progress io.Writer) (err error) {
	busy, err := busyNow(ctx)
	if err != nil {
		return err
	}
	b, err := startRaceCluster(ctx, project, race{nodes: 1, qps: 500, burst: 1000, minStart: shortStart, maxStart: longStart}, progress)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err != nil {
		return err
	}
	if err := b.deployOTA(ctx); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "gcu-h-")
	if err != nil {
		return fmt.Errorf("creating a folder for the host: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	host, err := harness.NewHost(folder, "1.0.0")
	if err != nil {
		return err
	}
	defer host.Close()
	agent, err := b.cluster.StartAgent(ctx, agentNode, host.Root)
	if agent != nil {
		defer func() { err = errors.Join(err, agent.Stop()) }()
	}
	if err != nil {
		return err
	}
	a := &agentUse{idle: quietTime / time.Duration(o.shrink), busy: busy}
	if err := b.measureIdle(ctx, agent, a); err != nil {
		return err
	}
	b.say("idle: %.1f mCPU, %s resident, %d writes in %s", a.milliCPU(), megabytes(a.rss), a.writes, a.idle)
	if err := b.requestAll(ctx, agent, a); err != nil {
		return err
	}
	if _, a.peak, err = memoryOf(agent.PID()); err != nil {
		return err
	}
	r.results = append(r.results, a)
	b.say("POST to deletion: median %.0f ms, p99 %.0f ms", milliseconds(quantile(a.deleted, 50)), milliseconds(quantile(a.deleted, 99)))
	return nil
}

// deployOTA creates DaemonSets under OTA, waits for their pods, and updates their
// templates.
func (b *raceCluster) deployOTA(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := b.cluster.Client.Create(ctx, ns); err != nil {
		return fmt.Errorf("creating namespace %s: %w", namespace, err)
	}
	for i := range posts {
		ds := b.daemonSet(ours)
		ds.Name = fmt.Sprintf("ota-%02d", i)
		ds.Spec.Selector.MatchLabels[nameLabel], ds.Spec.Template.Labels[nameLabel] = ds.Name, ds.Name
		ds.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "OTA", topsv1.AnnotationMaxUnavailable: "1"}
		if err := b.cluster.Client.Create(ctx, ds); err != nil {
			return fmt.Errorf("creating DaemonSet %s: %w", ds.Name, err)
		}
	}
	if err := b.waitForPods(ctx, 0); err != nil {
		return err
	}
	var list appsv1.DaemonSetList
	if err := b.cluster.Client.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return fmt.Errorf("listing DaemonSets: %w", err)
	}
	for i := range list.Items {
		if err := b.setVersion(ctx, list.Items[i].Name, "2"); err != nil {
			return err
		}
	}
	return b.waitForPods(ctx, posts)
}

// waitForPods waits until all pods are Ready and the given number needs an upgrade.
func (b *raceCluster) waitForPods(ctx context.Context, outdated int) error {
	ctx, cancel := context.WithTimeout(ctx, deployTimeout)
	defer cancel()
	return harness.Eventually(ctx, func() error {
		pods, err := b.podsOfAgent(ctx)
		if err != nil {
			return err
		}
		ready, marked := 0, map[corev1.ConditionStatus]int{}
		for i := range pods {
			has := map[corev1.PodConditionType]corev1.ConditionStatus{}
			for _, c := range pods[i].Status.Conditions {
				has[c.Type] = c.Status
			}
			if has[corev1.PodReady] == corev1.ConditionTrue {
				ready++
			}
			marked[has[topsv1.PodNeedUpgrade]]++
		}
		if ready != posts || marked[corev1.ConditionTrue] != outdated || marked[corev1.ConditionFalse] != posts-outdated {
			return fmt.Errorf("%d of %d pods are Ready, %s is %v", ready, posts, topsv1.PodNeedUpgrade, marked)
		}
		return nil
	})
}

func (b *raceCluster) podsOfAgent(ctx context.Context) ([]corev1.Pod, error) {
	var pods corev1.PodList
	if err := b.cluster.Client.List(ctx, &pods, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing pods: %w", err)
	}
	return pods.Items, nil
}

// measureIdle measures an idle agent.
func (b *raceCluster) measureIdle(ctx context.Context, agent *harness.Process, a *agentUse) error {
	if err := pause(ctx, 2*settle); err != nil {
		return err
	}
	count, err := b.countWrites(ctx)
	if err != nil {
		return err
	}
	before, err := cpuOf(agent.PID())
	if err != nil {
		return err
	}
	if err := pause(ctx, a.idle); err != nil {
		return err
	}
	after, err := cpuOf(agent.PID())
	if err != nil {
		return err
	}
	a.cpu, a.writes = after-before, count()
	a.rss, _, err = memoryOf(agent.PID())
	return err
}

// countWrites counts the changes of the agent's NodeUpgrade from now until the returned
// function is called.
func (b *raceCluster) countWrites(ctx context.Context) (func() int, error) {
	ctx, cancel := context.WithCancel(ctx)
	dynamic, err := client.NewWithWatch(b.cluster.Config, client.Options{Scheme: b.cluster.Client.Scheme()})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("making a client: %w", err)
	}
	var now topsv1.NodeUpgrade
	if err := dynamic.Get(ctx, client.ObjectKey{Name: agentNode}, &now); err != nil {
		cancel()
		return nil, fmt.Errorf("getting NodeUpgrade %s: %w", agentNode, err)
	}
	w, err := dynamic.Watch(ctx, &topsv1.NodeUpgradeList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: now.ResourceVersion}})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("watching NodeUpgrades: %w", err)
	}
	counted := make(chan int, 1)
	go func() {
		n := 0
		for range w.ResultChan() {
			n++
		}
		counted <- n
	}()
	return func() int {
		w.Stop()
		cancel()
		return <-counted
	}, nil
}

// requestAll requests one pod after the other, each when the previous pod was replaced
// and everything has settled.
func (b *raceCluster) requestAll(ctx context.Context, agent *harness.Process, a *agentUse) error {
	pods, err := b.podsOfAgent(ctx)
	if err != nil {
		return err
	}
	gone, err := b.deletions(ctx)
	if err != nil {
		return err
	}
	for i := range pods {
		began := time.Now()
		if err := postUpgrade(ctx, agent.URL, &pods[i]); err != nil {
			return err
		}
		a.answered = append(a.answered, time.Since(began))
		at, err := awaitDeletion(ctx, gone, pods[i].UID)
		if err != nil {
			return fmt.Errorf("pod %s: %w", pods[i].Name, err)
		}
		a.deleted = append(a.deleted, at.Sub(began))
		if err := b.waitForPods(ctx, posts-i-1); err != nil {
			return err
		}
	}
	slices.Sort(a.answered)
	slices.Sort(a.deleted)
	return nil
}

func postUpgrade(ctx context.Context, agent string, pod *corev1.Pod) error {
	url := fmt.Sprintf("%s/openyurt.io/v1/namespaces/%s/pods/%s/upgrade", agent, pod.Namespace, pod.Name)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return fmt.Errorf("asking for pod %s: %w", pod.Name, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking for pod %s: %w", pod.Name, err)
	}
	text, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("asking for pod %s: %w", pod.Name, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("requesting pod %s returned %s %s", pod.Name, response.Status, text)
	}
	return nil
}

// deletion is the observed deletion of a pod.
type deletion struct {
	uid types.UID
	at  time.Time
}

// deletions watches for deletions of pods until ctx is done.
func (b *raceCluster) deletions(ctx context.Context) (<-chan deletion, error) {
	clientset, err := kubernetes.NewForConfig(b.cluster.Config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	w, err := clientset.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("watching pods: %w", err)
	}
	gone := make(chan deletion, 10*posts)
	go func() {
		seen := map[types.UID]bool{}
		for e := range w.ResultChan() {
			if pod, ok := e.Object.(*corev1.Pod); ok && pod.DeletionTimestamp != nil && !seen[pod.UID] {
				seen[pod.UID] = true
				gone <- deletion{pod.UID, time.Now()}
			}
		}
	}()
	return gone, nil
}

func awaitDeletion(ctx context.Context, gone <-chan deletion, uid types.UID) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	for {
		select {
		case d := <-gone:
			if d.uid == uid {
				return d.at, nil
			}
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("waiting for its deletion: %w", ctx.Err())
		}
	}
}

// quantile returns the given percentile; sorted must not be empty.
func quantile[T cmp.Ordered](sorted []T, percent int) T {
	return sorted[(len(sorted)*percent+99)/100-1]
}

func (a *agentUse) tables(out io.Writer) {
	fmt.Fprintf(out, "\nOne node agent; %d requests, one after the other:\n\n", len(a.deleted))
	t := table{{"idle CPU", "idle memory", "peak", "writes while idle", "POST to answer, median", "p99", "POST to deletion, median", "p99", "machine busy before"}}
	t.add(fmt.Sprintf("%.1f mCPU", a.milliCPU()), megabytes(a.rss), megabytes(a.peak), fmt.Sprint(a.writes),
		fmt.Sprintf("%.0f ms", milliseconds(quantile(a.answered, 50))), fmt.Sprintf("%.0f ms", milliseconds(quantile(a.answered, 99))),
		fmt.Sprintf("%.0f ms", milliseconds(quantile(a.deleted, 50))), fmt.Sprintf("%.0f ms", milliseconds(quantile(a.deleted, 99))),
		fmt.Sprintf("%.0f %%", 100*a.busy))
	t.print(out)
}

func (a *agentUse) verdicts() []verdict {
	median := quantile(a.deleted, 50)
	return []verdict{
		{fmt.Sprintf("agent: idle at most %s resident", megabytes(maxAgentMemory)), fmt.Sprintf("%s, %s at its peak", megabytes(a.rss), megabytes(a.peak)), a.rss <= maxAgentMemory},
		{fmt.Sprintf("agent: idle at most %.0f mCPU", maxAgentCPU), fmt.Sprintf("%.1f mCPU, %d writes in %s", a.milliCPU(), a.writes, a.idle), a.milliCPU() <= maxAgentCPU},
		{fmt.Sprintf("agent: POST to the pod's deletion at most %s at the median", maxToDeletion),
			fmt.Sprintf("%.0f ms; p99 %.0f ms", milliseconds(median), milliseconds(quantile(a.deleted, 99))), median <= maxToDeletion},
	}
}
