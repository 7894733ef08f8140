package main

import (
	"context"
	"fmt"
	"io"
	"maps"
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

// file of the bundle, with objects or text.
type file struct {
	name    string
	objects []map[string]any
	text    string
}

// collector reads the contents of a support bundle, and records what cannot be read.
type collector struct {
	cluster *cluster
	logs    kubernetes.Interface
	limits  logLimits

	files  []file
	errors []string
	// uids and namespaces of the collected objects.
	uids       map[string]bool
	namespaces map[string]bool
	// worst are the stuck nodes.
	worst []string
}

func (c *collector) text(name, text string) { c.files = append(c.files, file{name: name, text: text}) }

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
			c.worst = append(c.worst, n.Name)
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
	c.addVersions(ctx)
	c.addStatus(ctx)
	for _, kind := range []string{"GcuResource", "DaemonRollout", "NodeUpgrade", "UpgradePolicy", "UpgradePlan"} {
		c.save(strings.ToLower(kind), c.list(ctx, ours.WithKind(kind), "", labels.Everything()))
	}
	c.save("node", c.list(ctx, core.WithKind("Node"), "", labels.Everything()))
	deployed := labels.SelectorFromSet(labels.Set{topsv1.LabelManagedBy: topsv1.ManagedBy})
	operator := labels.SelectorFromSet(labels.Set{nameLabel: operatorName})
	agents := labels.SelectorFromSet(labels.Set{nameLabel: agentName})
	sets := append(c.list(ctx, apps.WithKind("DaemonSet"), "", deployed), c.list(ctx, apps.WithKind("DaemonSet"), c.cluster.namespace, agents)...)
	deployments := append(c.list(ctx, apps.WithKind("Deployment"), "", deployed), c.list(ctx, apps.WithKind("Deployment"), c.cluster.namespace, operator)...)
	c.save("daemonset", sets)
	c.save("deployment", deployments)
	c.save("pod", c.podsOf(ctx, append(sets, deployments...)))
	c.save("controllerrevision", c.owned(ctx, apps.WithKind("ControllerRevision")))
	c.save("event", c.events(ctx))
	c.addLogs(ctx)
	c.text("errors.txt", strings.Join(append(c.errors, ""), "\n"))
}

// list reads all objects of a kind, page by page; namespace "" means all namespaces.
func (c *collector) list(ctx context.Context, kind schema.GroupVersionKind, namespace string, selector labels.Selector) []map[string]any {
	var found []map[string]any
	for next := ""; ; {
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(kind)
		err := c.cluster.all(ctx, namespace, page, client.MatchingLabelsSelector{Selector: selector}, client.Limit(pageSize), client.Continue(next))
		if err != nil {
			c.miss(kind.Kind+" in "+orEverywhere(namespace), err)
			return found
		}
		for i := range page.Items {
			found = append(found, page.Items[i].Object)
		}
		if next = page.GetContinue(); next == "" {
			return found
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
func (c *collector) save(name string, objects []map[string]any) {
	for _, o := range objects {
		u := unstructured.Unstructured{Object: o}
		c.uids[string(u.GetUID())] = true
		if u.GetNamespace() != "" && name != "event" {
			c.namespaces[u.GetNamespace()] = true
		}
	}
	c.files = append(c.files, file{name: "objects/" + name + ".yaml", objects: append([]map[string]any{}, objects...)})
}

// podsOf reads the pods of workloads.
func (c *collector) podsOf(ctx context.Context, workloads []map[string]any) []map[string]any {
	var found []map[string]any
	for _, w := range workloads {
		u := unstructured.Unstructured{Object: w}
		matching, _, _ := unstructured.NestedStringMap(w, "spec", "selector", "matchLabels")
		if len(matching) == 0 {
			continue
		}
		found = append(found, c.list(ctx, core.WithKind("Pod"), u.GetNamespace(), labels.SelectorFromSet(matching))...)
	}
	return found
}

// owned reads the objects of a kind that collected objects control.
func (c *collector) owned(ctx context.Context, kind schema.GroupVersionKind) []map[string]any {
	var found []map[string]any
	for _, namespace := range slices.Sorted(maps.Keys(c.namespaces)) {
		for _, o := range c.list(ctx, kind, namespace, labels.Everything()) {
			u := &unstructured.Unstructured{Object: o}
			if owner := metav1.GetControllerOf(u); owner != nil && c.uids[string(owner.UID)] {
				found = append(found, o)
			}
		}
	}
	return found
}

// events reads the events of collected objects and of nodes, whose events may have the name
// as uid.
func (c *collector) events(ctx context.Context) []map[string]any {
	var found []map[string]any
	for _, namespace := range slices.Sorted(maps.Keys(c.namespaces)) {
		for _, o := range c.list(ctx, core.WithKind("Event"), namespace, labels.Everything()) {
			uid, _, _ := unstructured.NestedString(o, "involvedObject", "uid")
			kind, _, _ := unstructured.NestedString(o, "involvedObject", "kind")
			if c.uids[uid] || kind == "Node" {
				found = append(found, o)
			}
		}
	}
	return found
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
			if slices.Contains(c.worst, p.Spec.NodeName) {
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
	b := bundle.New(out, root, time.Now())
	c.collect(ctx)
	for _, file := range c.files {
		var err error
		if file.objects != nil {
			err = b.Objects(file.name, file.objects)
		} else {
			err = b.Text(file.name, file.text)
		}
		if err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.Close()
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
