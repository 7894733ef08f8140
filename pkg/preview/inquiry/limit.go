package inquiry

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/message"
)

// maxLimit bounds a limit in an annotation: the API server allows 256 KiB of annotations, on a
// gr and on each of its DaemonSets.
const maxLimit = 128 << 10

// CheckLimit validates the nodes and components to which an upgrade of a gr is to be limited. It returns
// the limit with component names as in the spec, and without duplicates. wrong is why the limit is
// invalid, "" if it is valid: for example, a node does not exist, or a component is not in the gr or
// does not run on every node. The error is about reading the cluster; then only the existence of the nodes is not checked.
func CheckLimit(ctx context.Context, r client.Reader, gr *topsv1.GcuResource, limit *daemonset.Limit) (checked *daemonset.Limit, wrong string, err error) {
	checked = &daemonset.Limit{}
	rolled := perNode(gr)
	for _, name := range limit.Components {
		name = daemonset.ComponentKey(name)
		if !slices.Contains(rolled, name) {
			return nil, fmt.Sprintf("GcuResource %s has no component %.100q on its nodes; it has %s", gr.Name, name, strings.Join(rolled, ", ")), nil
		}
		checked.Components = append(checked.Components, name)
	}
	for _, name := range limit.Nodes {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			return nil, fmt.Sprintf("%.100q is not the name of a node", name), nil
		}
		checked.Nodes = append(checked.Nodes, name)
	}
	checked.Nodes, checked.Components = once(checked.Nodes), once(checked.Components)
	if n := len(checked.String()); n > maxLimit {
		return nil, fmt.Sprintf("the names of %s are too long together: upgrade in several parts", message.Count(len(checked.Nodes), "node")), nil
	}
	if missing, err := missingNodes(ctx, r, checked.Nodes); err != nil {
		return checked, "", err
	} else if len(missing) > 0 {
		return nil, "there is no node " + message.Names(missing), nil
	}
	return checked, "", nil
}

// once removes duplicates, keeping the order of first occurrence.
func once(names []string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(names, func(name string) bool {
		was := seen[name]
		seen[name] = true
		return was
	})
}

// fewNodes is the largest number of nodes that are read one by one; more are listed.
const fewNodes = 20

func missingNodes(ctx context.Context, r client.Reader, names []string) ([]string, error) {
	var missing []string
	if len(names) <= fewNodes {
		for _, name := range names {
			err := r.Get(ctx, client.ObjectKey{Name: name}, &corev1.Node{})
			if apierrors.IsNotFound(err) {
				missing = append(missing, name)
			} else if err != nil {
				return nil, fmt.Errorf("reading node %s: %w", name, err)
			}
		}
		return missing, nil
	}
	var list corev1.NodeList
	if err := r.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	there := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		there[list.Items[i].Name] = true
	}
	for _, name := range names {
		if !there[name] {
			missing = append(missing, name)
		}
	}
	return missing, nil
}

// perNode returns the components of a gr that run on every node, in the order of
// deployment.
func perNode(gr *topsv1.GcuResource) []string {
	return slices.DeleteFunc(component.Requested(&gr.Spec), func(name string) bool {
		return component.Find(name).Readiness != component.OnEveryNode
	})
}
