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
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/bundle"
	"github.com/topsops/gcu-operator/pkg/gcucli/view"
	"github.com/topsops/gcu-operator/pkg/message"
)

const (
	// agentName is the label app.kubernetes.io/name of the node agents.
	agentName = "gcu-node-agent"
	nameLabel = "app.kubernetes.io/name"
	// pageSize is how many objects are asked for at once.
	pageSize = 500
	// logTime is how long one log may take.
	logTime = 30 * time.Second
	// logBytes is how much of a log is taken at most.
	logBytes = 16 << 20
)

// logLimits bound what is taken of logs.
type logLimits struct {
	lines  int64
	agents int
}

// file of the bundle: objects, or text.
type file struct {
	name    string
	objects []map[string]any
	text    string
}

// collector reads what goes into a support bundle. What cannot be read is noted.
type collector struct {
	cluster *cluster
	logs    kubernetes.Interface
	limits  logLimits

	files  []file
	errors []string
	// uids of the objects that were collected, and namespaces they are in.
	uids       map[string]bool
	namespaces map[string]bool
	// worst are the nodes in trouble.
	worst []string
}

func (f *collector) text(name, text string) { f.files = append(f.files, file{name: name, text: text}) }

// miss notes what could not be read.
func (f *collector) miss(what string, err error) {
	if err != nil {
		f.errors = append(f.errors, what+": "+err.Error())
	}
}

func (f *collector) summary() string {
	if len(f.errors) == 0 {
		return "everything could be read"
	}
	return message.Count(len(f.errors), "part") + " could not be read, see errors.txt in it; the first is " + f.errors[0]
}

// trouble notes nodes whose agents are asked first.
func (f *collector) trouble(nodes []view.Node) {
	for _, n := range nodes {
		if n.Stuck {
			f.worst = append(f.worst, n.Name)
		}
	}
}

var (
	apps = schema.GroupVersion{Group: "apps", Version: "v1"}
	core = corev1.SchemeGroupVersion
	ours = topsv1.GroupVersion
)

func (f *collector) collect(ctx context.Context) {
	f.uids, f.namespaces = map[string]bool{}, map[string]bool{f.cluster.namespace: true, metav1.NamespaceDefault: true}
	f.addVersions(ctx)
	f.addStatus(ctx)
	for _, kind := range []string{"GcuResource", "DaemonRollout", "NodeUpgrade", "UpgradePolicy"} {
		f.save(strings.ToLower(kind), f.list(ctx, ours.WithKind(kind), "", labels.Everything()))
	}
	f.save("node", f.list(ctx, core.WithKind("Node"), "", labels.Everything()))
	deployed := labels.SelectorFromSet(labels.Set{topsv1.LabelManagedBy: topsv1.ManagedBy})
	operator := labels.SelectorFromSet(labels.Set{nameLabel: operatorName})
	agents := labels.SelectorFromSet(labels.Set{nameLabel: agentName})
	sets := append(f.list(ctx, apps.WithKind("DaemonSet"), "", deployed), f.list(ctx, apps.WithKind("DaemonSet"), f.cluster.namespace, agents)...)
	deployments := append(f.list(ctx, apps.WithKind("Deployment"), "", deployed), f.list(ctx, apps.WithKind("Deployment"), f.cluster.namespace, operator)...)
	f.save("daemonset", sets)
	f.save("deployment", deployments)
	f.save("pod", f.podsOf(ctx, append(sets, deployments...)))
	f.save("controllerrevision", f.owned(ctx, apps.WithKind("ControllerRevision")))
	f.save("event", f.events(ctx))
	f.addLogs(ctx)
	f.text("errors.txt", strings.Join(append(f.errors, ""), "\n"))
}

// list reads all objects of a kind, page by page; namespace "" means everywhere.
func (f *collector) list(ctx context.Context, kind schema.GroupVersionKind, namespace string, selector labels.Selector) []map[string]any {
	var found []map[string]any
	for next := ""; ; {
		page := &unstructured.UnstructuredList{}
		page.SetGroupVersionKind(kind)
		err := f.cluster.all(ctx, namespace, page, client.MatchingLabelsSelector{Selector: selector}, client.Limit(pageSize), client.Continue(next))
		if err != nil {
			f.miss(kind.Kind+" in "+orEverywhere(namespace), err)
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

// save adds a file with objects, and notes what they are for their events.
func (f *collector) save(name string, objects []map[string]any) {
	for _, o := range objects {
		u := unstructured.Unstructured{Object: o}
		f.uids[string(u.GetUID())] = true
		if u.GetNamespace() != "" && name != "event" {
			f.namespaces[u.GetNamespace()] = true
		}
	}
	f.files = append(f.files, file{name: "objects/" + name + ".yaml", objects: append([]map[string]any{}, objects...)})
}

// podsOf reads the pods of workloads.
func (f *collector) podsOf(ctx context.Context, workloads []map[string]any) []map[string]any {
	var found []map[string]any
	for _, w := range workloads {
		u := unstructured.Unstructured{Object: w}
		matching, _, _ := unstructured.NestedStringMap(w, "spec", "selector", "matchLabels")
		if len(matching) == 0 {
			continue
		}
		found = append(found, f.list(ctx, core.WithKind("Pod"), u.GetNamespace(), labels.SelectorFromSet(matching))...)
	}
	return found
}

// owned reads the objects of a kind that belong to what was collected.
func (f *collector) owned(ctx context.Context, kind schema.GroupVersionKind) []map[string]any {
	var found []map[string]any
	for _, namespace := range slices.Sorted(maps.Keys(f.namespaces)) {
		for _, o := range f.list(ctx, kind, namespace, labels.Everything()) {
			u := &unstructured.Unstructured{Object: o}
			if owner := metav1.GetControllerOf(u); owner != nil && f.uids[string(owner.UID)] {
				found = append(found, o)
			}
		}
	}
	return found
}

// events reads those about what was collected; of a node they may have its name for
// a uid.
func (f *collector) events(ctx context.Context) []map[string]any {
	var found []map[string]any
	for _, namespace := range slices.Sorted(maps.Keys(f.namespaces)) {
		for _, o := range f.list(ctx, core.WithKind("Event"), namespace, labels.Everything()) {
			uid, _, _ := unstructured.NestedString(o, "involvedObject", "uid")
			kind, _, _ := unstructured.NestedString(o, "involvedObject", "kind")
			if f.uids[uid] || kind == "Node" {
				found = append(found, o)
			}
		}
	}
	return found
}

// addLogs adds the logs of the operator, and of some node agents.
func (f *collector) addLogs(ctx context.Context) {
	for _, name := range []string{operatorName, agentName} {
		var pods corev1.PodList
		err := f.cluster.all(ctx, f.cluster.namespace, &pods, client.MatchingLabels{nameLabel: name})
		f.miss("pods of "+name, err)
		list := pods.Items
		if name == agentName {
			list = f.chosen(list)
		}
		for i := range list {
			for _, container := range list[i].Spec.Containers {
				f.addLog(ctx, &list[i], container.Name, false)
				if restarted(&list[i], container.Name) {
					f.addLog(ctx, &list[i], container.Name, true)
				}
			}
		}
	}
}

// chosen are the agents whose logs are taken: those of nodes in trouble first.
func (f *collector) chosen(agents []corev1.Pod) []corev1.Pod {
	slices.SortStableFunc(agents, func(a, b corev1.Pod) int {
		bad := func(p *corev1.Pod) int {
			if slices.Contains(f.worst, p.Spec.NodeName) {
				return 0
			}
			return 1
		}
		if d := bad(&a) - bad(&b); d != 0 {
			return d
		}
		return strings.Compare(a.Spec.NodeName, b.Spec.NodeName)
	})
	return agents[:min(len(agents), max(0, f.limits.agents))]
}

func restarted(pod *corev1.Pod, container string) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == container && s.RestartCount > 0 })
}

func (f *collector) addLog(ctx context.Context, pod *corev1.Pod, container string, previous bool) {
	ctx, cancel := context.WithTimeout(ctx, logTime)
	defer cancel()
	name := fmt.Sprintf("logs/%s/%s.log", pod.Name, container)
	if previous {
		name = fmt.Sprintf("logs/%s/%s.previous.log", pod.Name, container)
	}
	most := int64(logBytes)
	stream, err := f.logs.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: container, Previous: previous, TailLines: &f.limits.lines, LimitBytes: &most, Timestamps: true}).Stream(ctx)
	if err != nil {
		f.miss(name, explain(err, "get", pod.Namespace))
		return
	}
	defer stream.Close()
	data, err := io.ReadAll(io.LimitReader(stream, logBytes))
	f.miss(name, err)
	f.text(name, string(data))
}

// into writes the whole tarball.
func (f *collector) into(ctx context.Context, out io.Writer, root string) error {
	b := bundle.New(out, root, time.Now())
	f.collect(ctx)
	for _, file := range f.files {
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
func (f *collector) addVersions(ctx context.Context) {
	v := versions{Plugin: version}
	addVersions(ctx, f.cluster, &v)
	data, err := yaml.Marshal(v)
	f.miss("versions", err)
	f.text("versions.yaml", string(data))
}

// addStatus adds what kubectl gcu status and nodes tell.
func (f *collector) addStatus(ctx context.Context) {
	grs, err := f.cluster.resources(ctx, nil)
	f.miss("status", err)
	style := view.Style{Now: time.Now(), Wide: true}
	for i := range grs {
		s, err := readStatus(ctx, f.cluster, &grs[i])
		f.miss("status of gr "+grs[i].Name, err)
		text := s.Text(style)
		fleet, err := readFleet(ctx, f.cluster, &grs[i])
		f.miss("nodes of gr "+grs[i].Name, err)
		if err == nil {
			nodes := view.NodesOf(fleet)
			text += "\n" + view.NodesText(nodes, style)
			f.trouble(nodes)
		}
		f.text("status/"+grs[i].Name+".txt", text)
	}
}
