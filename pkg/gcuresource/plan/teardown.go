package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/pkg/message"
)

// Teardown is what to do for a gr that is being deleted.
type Teardown struct {
	// Current is the component being removed, "" if none is left.
	Current string
	// Delete are its objects that still have to be deleted.
	Delete []state.Owned
	// Left are the components that still exist, in deployment order.
	Left []string
	// Message says what it waits for.
	Message string
}

// DecideTeardown removes the components one by one in reverse order: a component is gone when its
// objects and its pods on all Ready nodes are. It does not wait for pods on other nodes, which go
// when these return.
func DecideTeardown(obs *state.Observation) Teardown {
	down := Teardown{Left: remaining(obs)}
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
	reachable, offline := podNodes(obs, down.Current)
	if len(reachable) > 0 {
		waiting = append(waiting, "pods on "+message.Names(reachable))
	}
	down.Message = fmt.Sprintf("removing %s: waiting for %s", down.Current, strings.Join(waiting, ", "))
	if len(offline) > 0 {
		down.Message += fmt.Sprintf("; %s not Ready and not waited for: %s", message.Count(len(offline), "node"), message.Names(offline))
	}
	return down
}

// remaining returns the components that still have objects, or pods on Ready nodes, in deployment
// order; names unknown to this version come last.
func remaining(obs *state.Observation) []string {
	left := map[string]bool{}
	for _, o := range obs.Owned {
		left[o.Component] = true
	}
	for i := range obs.Components {
		name := obs.Components[i].Name
		if reachable, _ := podNodes(obs, name); len(reachable) > 0 {
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

// podNodes returns the Ready and the other nodes that still have pods of a component, sorted.
// Pods of a workload that was deployed as another component's go with that one.
func podNodes(obs *state.Observation, name string) (reachable, offline []string) {
	i := slices.IndexFunc(obs.Components, func(c state.Component) bool { return c.Name == name })
	if i < 0 || deployedAsAnother(obs, &obs.Components[i]) {
		return nil, nil
	}
	hasPod := map[string]bool{}
	for _, pod := range obs.Components[i].Pods {
		hasPod[daemonset.NodeName(pod)] = true
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

// deployedAsAnother reports whether a workload of a component exists as that of another one: the
// spec has given its name away.
func deployedAsAnother(obs *state.Observation, c *state.Component) bool {
	workloads := c.Workloads()
	return slices.ContainsFunc(obs.Owned, func(o state.Owned) bool {
		return o.Component != c.Name && slices.Contains(workloads, o.Ref)
	})
}
