package main

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/bundle"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/plaintext"
)

const (
	// agentName is the label app.kubernetes.io/name of the node agents.
	agentName = "gcu-node-agent"
	nameLabel = "app.kubernetes.io/name"
	// pageSize is how many objects are listed at once.
	pageSize = 500
	// logTime is the timeout for one log.
	logTime = 30 * time.Second
	// logBytes limits the size of one log.
	logBytes = 16 << 20
)

// logLimits limit the logs: lines of each, and of how many agents.
type logLimits struct {
	lines  int64
	agents int
}

// collector reads the contents of a support bundle into it, page by page, and records what cannot be read.
type collector struct {
	cluster *cluster
	logs    kubernetes.Interface
	limits  logLimits

	bundle *bundle.Bundle
	// failed is the first error of writing the bundle.
	failed error
	errors []string
	// uids and namespaces of the collected objects.
	uids       map[string]bool
	namespaces map[string]bool
	// worst are the stuck nodes.
	worst map[string]bool
}

func (c *collector) text(name, text string) {
	if c.failed == nil {
		c.failed = c.bundle.Text(name, text)
	}
}

// miss records what could not be read.
func (c *collector) miss(what string, err error) {
	if err != nil {
		c.errors = append(c.errors, what+": "+err.Error())
	}
}

func (c *collector) summary() string {
	if len(c.errors) == 0 {
		return "everything could be read"
	}
	return message.Count(len(c.errors), "part") + " could not be read, see errors.txt in it; the first is " + c.errors[0]
}

// trouble records stuck nodes: the logs of their agents come first.
func (c *collector) trouble(nodes []display.Node) {
	for _, n := range nodes {
		if n.Stuck {
			c.worst[n.Name] = true
		}
	}
}

var (
	apps = schema.GroupVersion{Group: "apps", Version: "v1"}
	core = corev1.SchemeGroupVersion
	ours = topsv1.GroupVersion
)

func (c *collector) collect(ctx context.Context) {
	c.uids, c.namespaces = map[string]bool{}, map[string]bool{c.cluster.namespace: true, metav1.NamespaceDefault: true}
	c.worst = map[string]bool{}
	c.addVersions(ctx)
	c.addStatus(ctx)
	for _, kind := range []string{"GcuResource", "DaemonRollout", "NodeUpgrade", "UpgradePolicy", "UpgradePlan"} {
		c.save(strings.ToLower(kind), c.list(ctx, ours.WithKind(kind), "", labels.Everything()))
	}
	c.save("node", c.list(ctx, core.WithKind("Node"), "", labels.Everything()))
	deployed := labels.SelectorFromSet(labels.Set{topsv1.LabelManagedBy: topsv1.ManagedBy})
	operator := labels.SelectorFromSet(labels.Set{nameLabel: operatorName})
	agents := labels.SelectorFromSet(labels.Set{nameLabel: agentName})
	sets := slices.AppendSeq(slices.Collect(c.list(ctx, apps.WithKind("DaemonSet"), "", deployed)), c.list(ctx, apps.WithKind("DaemonSet"), c.cluster.namespace, agents))
	deployments := slices.AppendSeq(slices.Collect(c.list(ctx, apps.WithKind("Deployment"), "", deployed)), c.list(ctx, apps.WithKind("Deployment"), c.cluster.namespace, operator))
	c.save("daemonset", slices.Values(sets))
	c.save("deployment", slices.Values(deployments))
	c.save("pod", c.podsOf(ctx, append(sets, deployments...)))
	c.save("controllerrevision", c.owned(ctx, apps.WithKind("ControllerRevision")))
	c.save("event", c.events(ctx))
	c.addLogs(ctx)
	c.text("errors.txt", strings.Join(append(c.errors, ""), "\n"))
}

// list reads all objects of a kind, page by page; namespace "" means all namespaces.
func (c *collector) list(ctx context.Context, kind schema.GroupVersionKind, namespace string, selector labels.Selector) iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		for next := ""; ; {
			page := &unstructured.UnstructuredList{}
			page.SetGroupVersionKind(kind)
			err := c.cluster.all(ctx, namespace, page, client.MatchingLabelsSelector{Selector: selector}, client.Limit(pageSize), client.Continue(next))
			if err != nil {
				c.miss(kind.Kind+" in "+orEverywhere(namespace), err)
				return
			}
			for i := range page.Items {
				if !yield(page.Items[i].Object) {
					return
				}
			}
			if next = page.GetContinue(); next == "" {
				return
			}
		}
	}
}

func orEverywhere(namespace string) string {
	if namespace == "" {
		return "all namespaces"
	}
	return "namespace " + namespace
}

// save adds a file with objects, and records their uids for events.
func (c *collector) save(name string, objects iter.Seq[map[string]any]) {
	if c.failed != nil {
		return
	}
	spool, err := os.CreateTemp("", "kubectl-gcu-*.yaml") // 0600
	if err != nil {
		c.failed = fmt.Errorf("making a temporary file for objects: %w", err)
		return
	}
	defer os.Remove(spool.Name())
	defer spool.Close()
	c.failed = c.bundle.Objects("objects/"+name+".yaml", func(yield func(map[string]any) bool) {
		for o := range objects {
			u := unstructured.Unstructured{Object: o}
			c.uids[string(u.GetUID())] = true
			if u.GetNamespace() != "" && name != "event" {
				c.namespaces[u.GetNamespace()] = true
			}
			if !yield(o) {
				return
			}
		}
	}, spool)
}

// podsOf reads the pods of workloads.
func (c *collector) podsOf(ctx context.Context, workloads []map[string]any) iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		for _, w := range workloads {
			u := unstructured.Unstructured{Object: w}
			matching, _, _ := unstructured.NestedStringMap(w, "spec", "selector", "matchLabels")
			if len(matching) == 0 {
				continue
			}
			for o := range c.list(ctx, core.WithKind("Pod"), u.GetNamespace(), labels.SelectorFromSet(matching)) {
				if !yield(o) {
					return
				}
			}
		}
	}
}

// owned reads the objects of a kind that collected objects control.
func (c *collector) owned(ctx context.Context, kind schema.GroupVersionKind) iter.Seq[map[string]any] {
	return c.inNamespaces(ctx, kind, func(o map[string]any) bool {
		owner := metav1.GetControllerOf(&unstructured.Unstructured{Object: o})
		return owner != nil && c.uids[string(owner.UID)]
	})
}

// events reads the events of collected objects and of nodes, whose events may have the name
// as uid.
func (c *collector) events(ctx context.Context) iter.Seq[map[string]any] {
	return c.inNamespaces(ctx, core.WithKind("Event"), func(o map[string]any) bool {
		uid, _, _ := unstructured.NestedString(o, "involvedObject", "uid")
		kind, _, _ := unstructured.NestedString(o, "involvedObject", "kind")
		return c.uids[uid] || kind == "Node"
	})
}

// inNamespaces reads the wanted objects of a kind in the namespaces of the collected objects.
func (c *collector) inNamespaces(ctx context.Context, kind schema.GroupVersionKind, wanted func(map[string]any) bool) iter.Seq[map[string]any] {
	return func(yield func(map[string]any) bool) {
		for _, namespace := range slices.Sorted(maps.Keys(c.namespaces)) {
			for o := range c.list(ctx, kind, namespace, labels.Everything()) {
				if wanted(o) && !yield(o) {
					return
				}
			}
		}
	}
}

// addLogs adds the logs of the operator and of some node agents.
func (c *collector) addLogs(ctx context.Context) {
	for _, name := range []string{operatorName, agentName} {
		var pods corev1.PodList
		err := c.cluster.all(ctx, c.cluster.namespace, &pods, client.MatchingLabels{nameLabel: name})
		c.miss("pods of "+name, err)
		list := pods.Items
		if name == agentName {
			list = c.chosen(list)
		}
		for i := range list {
			for _, container := range list[i].Spec.Containers {
				c.addLog(ctx, &list[i], container.Name, false)
				if restarted(&list[i], container.Name) {
					c.addLog(ctx, &list[i], container.Name, true)
				}
			}
		}
	}
}

// chosen returns the agents whose logs are added: those of stuck nodes first.
func (c *collector) chosen(agents []corev1.Pod) []corev1.Pod {
	slices.SortStableFunc(agents, func(a, b corev1.Pod) int {
		bad := func(p *corev1.Pod) int {
			if c.worst[p.Spec.NodeName] {
				return 0
			}
			return 1
		}
		if d := bad(&a) - bad(&b); d != 0 {
			return d
		}
		return strings.Compare(a.Spec.NodeName, b.Spec.NodeName)
	})
	return agents[:min(len(agents), max(0, c.limits.agents))]
}

func restarted(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container && s.RestartCount > 0 })
}

func (c *collector) addLog(ctx context.Context, pod *corev1.Pod, container string, previous bool) {
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	name := fmt.Sprintf("logs/%s/%s.log", pod.Name, container)
	if previous {
		name = fmt.Sprintf("logs/%s/%s.previous.log", pod.Name, container)
	}
	most := int64(logBytes)
	stream, err := c.logs.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: &c.limits.lines, LimitBytes: &most, Timestamps: true}).Stream(ctx)
	if err != nil {
		c.miss(name, explain(err, "get", pod.Namespace))
		return
	}
	defer stream.Close()
	data, err := io.ReadAll(io.LimitReader(stream, logBytes))
	c.miss(name, err)
	c.text(name, string(data))
}

// into writes the whole tarball.
func (c *collector) into(ctx context.Context, out io.Writer, root string) error {
	c.bundle = bundle.New(out, root, time.Now())
	c.collect(ctx)
	if c.failed != nil {
		return c.failed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.bundle.Close()
}

// addVersions adds a file with the versions.
func (c *collector) addVersions(ctx context.Context) {
	v := versions{Plugin: version}
	addVersions(ctx, c.cluster, &v)
	text, err := plaintext.YAML(v)
	c.miss("versions", err)
	c.text("versions.yaml", text)
}

// addStatus adds the output of kubectl gcu status and nodes.
func (c *collector) addStatus(ctx context.Context) {
	grs, err := c.cluster.resources(ctx, nil)
	c.miss("status", err)
	style := display.Style{Now: time.Now(), Wide: true}
	for i := range grs {
		s, err := readStatus(ctx, c.cluster, &grs[i])
		c.miss("status of gr "+grs[i].Name, err)
		text := s.Text(style)
		fleet, err := readFleet(ctx, c.cluster, &grs[i])
		c.miss("nodes of gr "+grs[i].Name, err)
		if err == nil {
			nodes := display.NodesOf(fleet)
			text += "\n" + display.NodesText(nodes, style)
			c.trouble(nodes)
		}
		c.text("status/"+grs[i].Name+".txt", text)
	}
}
