package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Teardown is what to do for a gr that is being deleted.
type Teardown struct {
	// Current is the component being removed, "" if none is left or none is removed yet.
	Current string
	// Delete are its objects that still have to be deleted.
	Delete []state.Owned
	// Left are the components that still exist, in deployment order.
	Left []string
	// Message says what it waits for.
	Message string
}

// Done reports whether nothing is left of the gr but the labels of nodes.
func (t *Teardown) Done() bool { return t.Message == "" }

// DecideTeardown waits until no operation works on a node any more, which the rollout aborts: without components, and
// then without a manager, nodes could stay cordoned, and an installer may be at work.
//
// Then it removes the components one by one in reverse order: a component is gone when its
// objects and its pods on all Ready nodes are. It does not wait for pods on other nodes, which go
// when these return. A DaemonSet that the garbage collector orphaned is left to the user, and waited for: the
// labels of the nodes go last, and with them its pods on all nodes at once.
func DecideTeardown(obs *state.Observation) Teardown {
	down := Teardown{Left: remaining(obs)}
	if len(obs.Operating) > 0 {
		down.Message = fmt.Sprintf("aborting the operations on %s: nothing is removed before these nodes are released; kubectl describe nodeupgrade NODE says what one waits for", message.Names(obs.Operating))
		return down
	}
	if len(down.Left) == 0 {
		return down
	}
	down.Current = down.Left[len(down.Left)-1]
	var waiting []string
	for _, o := range obs.Owned {
		if o.Component != down.Current {
			continue
		}
		waiting = append(waiting, o.Ref.String())
		if !o.Deleting {
			down.Delete = append(down.Delete, o)
		}
	}
	down.Delete = webhooksFirst(down.Delete)
	if len(waiting) > 0 {
		waiting = []string{message.Names(waiting)}
	}
	reachable, offline := podNodes(obs, down.Current, nil)
	if len(reachable) > 0 {
		waiting = append(waiting, "pods on "+message.Names(reachable))
	}
	if ref := orphaned(obs, down.Current); ref != "" {
		waiting = append(waiting, ref+", which lost its owner (kubectl delete --cascade=orphan): delete it")
	}
	down.Message = fmt.Sprintf("removing %s: waiting for %s", down.Current, strings.Join(waiting, ", "))
	if len(offline) > 0 {
		down.Message += fmt.Sprintf("; %s not Ready and not waited for: %s", message.Count(len(offline), "node"), message.Names(offline))
	}
	return down
}

// remaining returns the components that still have objects, pods on Ready nodes or an orphaned DaemonSet, in
// deployment order; names unknown to this version come last.
func remaining(obs *state.Observation) []string {
	left := map[string]bool{}
	for _, o := range obs.Owned {
		left[o.Component] = true
	}
	names := slices.Collect(maps.Keys(obs.Former))
	for i := range obs.Components {
		names = append(names, obs.Components[i].Name)
	}
	for _, name := range names {
		if reachable, _ := podNodes(obs, name, nil); len(reachable) > 0 || orphaned(obs, name) != "" {
			left[name] = true
		}
	}
	sorted := make([]string, 0, len(left))
	for name := range left {
		sorted = append(sorted, name)
	}
	slices.SortFunc(sorted, func(a, b string) int {
		if d := component.Place(a) - component.Place(b); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	return sorted
}

// podNodes returns the Ready and the other nodes that still have pods of a component, under its present name or a former
// one, sorted. Pods of a workload that was deployed as another component's go with that one. Pods for which isStuck, if it
// is not nil, returns true do not count.
func podNodes(obs *state.Observation, name string, isStuck func(*corev1.Pod) bool) (reachable, offline []string) {
	pods := obs.Former[name]
	i := slices.IndexFunc(obs.Components, func(c state.Component) bool { return c.Name == name })
	if i >= 0 && !deployedAsAnother(obs, &obs.Components[i]) {
		pods = slices.Concat(pods, obs.Components[i].Pods)
	}
	hasPod := map[string]bool{}
	for _, pod := range pods {
		if isStuck == nil || !isStuck(pod) {
			hasPod[daemonset.NodeName(pod)] = true
		}
	}
	for _, node := range obs.Nodes {
		if !hasPod[node.Name] {
			continue
		}
		if ready, _ := daemonset.NodeReady(node); ready {
			reachable = append(reachable, node.Name)
			continue
		}
		offline = append(offline, node.Name)
	}
	return reachable, offline
}

// orphaned returns the DaemonSet of a component that was created for the gr and that nothing controls any more,
// "" if there is none.
func orphaned(obs *state.Observation, name string) string {
	i := slices.IndexFunc(obs.Components, func(c state.Component) bool { return c.Name == name && c.PerNode != nil })
	if i < 0 {
		return ""
	}
	ref := obs.Components[i].DaemonSetRef()
	live := obs.Components[i].Live[ref]
	if live == nil || metav1.GetControllerOf(live) != nil ||
		live.Labels[topsv1.LabelManagedBy] != topsv1.ManagedBy || live.Labels[topsv1.LabelGcuResource] != obs.Resource.Name {
		return ""
	}
	return ref.String()
}

// deployedAsAnother reports whether a workload of a component exists as that of another one: the
// spec has given its name away.
func deployedAsAnother(obs *state.Observation, c *state.Component) bool {
	workloads := c.Workloads()
	return slices.ContainsFunc(obs.Owned, func(o state.Owned) bool {
		return o.Component != c.Name && slices.Contains(workloads, o.Ref)
	})
}
