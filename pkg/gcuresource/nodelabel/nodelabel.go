// Package nodelabel decides which labels of this operator a node has: that it has a GCU, which
// the components select on, and that its cards are shared. It records on the node which labels
// are its own, and leaves others alone.
package nodelabel

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// deviceLabel matches the labels with which node-feature-discovery reports a device of PCI vendor
// 1e36 (components.md section 1.0), whether it labels by vendor or by class and vendor.
var deviceLabel = regexp.MustCompile(`^feature\.node\.kubernetes\.io/pci-([0-9a-f]{4}_)?1e36(_[0-9a-f_]+)?\.present$`)

// featurePrefix is that of all labels of node-feature-discovery; devicePrefix rules out most labels without the
// expression.
const (
	featurePrefix = "feature.node.kubernetes.io/"
	devicePrefix  = featurePrefix + "pci-"
)

// hasDevice reports whether node-feature-discovery found a GCU on the node.
func hasDevice(node *corev1.Node) bool {
	for key, value := range node.Labels {
		if value == "true" && strings.HasPrefix(key, devicePrefix) && deviceLabel.MatchString(key) {
			return true
		}
	}
	return false
}

// isUnreported reports whether node-feature-discovery reports nothing of a node: it is away, was restarted with an empty
// result, or labels with another prefix. Then a missing device label says nothing.
func isUnreported(node *corev1.Node) bool {
	for key := range node.Labels {
		if strings.HasPrefix(key, featurePrefix) {
			return false
		}
	}
	return true
}

// IsUpgraded reports whether an operation works on a node, or failed and keeps it out of service: it has the mark of a
// cordon or the taint of one. What an upgrade does to the cards is a failure of the upgrade, and shows as one only while
// the node keeps its pods.
func IsUpgraded(node *corev1.Node) bool {
	return node.Annotations[topsv1.AnnotationCordonedBy] != "" || operation.TaintedFor(node) != ""
}

// isGCUNode reports whether a node has a device, or was labeled so by someone else.
func isGCUNode(node *corev1.Node) bool {
	return node.Labels[topsv1.LabelGcuPresent] == "true" || hasDevice(node)
}

// GCUNodes returns the names of the GCU nodes, including offline ones, in the order of nodes.
func GCUNodes(nodes []*corev1.Node) []string {
	var found []string
	for _, node := range nodes {
		if isGCUNode(node) {
			found = append(found, node.Name)
		}
	}
	return found
}

// AllowanceLabel, with AllowanceValue, is the label with which a node of the control plane gets components. Without it,
// admission denies such a node the labels of this operator (config/admission/control_plane.yaml).
const (
	AllowanceLabel = "node-restriction.kubernetes.io/gcu-components"
	AllowanceValue = "allowed"
)

// isGuarded reports whether a node is of the control plane and not allowed to run components.
func isGuarded(node *corev1.Node) bool {
	isRole := func(role string) bool {
		_, has := node.Labels["node-role.kubernetes.io/"+role]
		return has
	}
	return node.Labels[AllowanceLabel] != AllowanceValue && slices.ContainsFunc([]string{"control-plane", "master", "etcd"}, isRole)
}

// NotAllowed returns the names of the nodes with a device that do not have the GCU label because they are guarded, in
// the order of nodes.
func NotAllowed(nodes []*corev1.Node) []string {
	var found []string
	for _, node := range nodes {
		if _, labeled := node.Labels[topsv1.LabelGcuPresent]; !labeled && isGuarded(node) && hasDevice(node) {
			found = append(found, node.Name)
		}
	}
	return found
}

// labels are the labels that this operator sets on nodes, with value "true".
var labels = []string{topsv1.LabelGcuPresent, topsv1.LabelGcushare}

// change is the change to a label of a node.
type change int

const (
	keep change = iota
	// set sets the label and records that it is ours.
	set
	// remove removes the label and the record.
	remove
	// disown removes only the record: someone gave the label another value.
	disown
)

// Inputs are what the labels of nodes follow from.
type Inputs struct {
	// Resources are the grs as they are in force.
	Resources []topsv1.GcuResource
	// Leaving has the UIDs of the grs that have a DaemonSet of gcusharePlugin: if the spec no longer requests
	// it, the DaemonSet is leaving its nodes one by one, or is about to be deleted.
	Leaving map[types.UID]bool
	// Unknown has the UIDs of the grs of which it is not known which spec is in force: any node may need its labels for
	// their pods.
	Unknown map[types.UID]bool
	// CountsCards has the names of the nodes whose node agents counted cards last.
	CountsCards map[string]bool
}

// wanted is whether a node should have a label.
type wanted int

const (
	// unwanted: no gr wants it.
	unwanted wanted = iota
	// stillNeeded: every gr that wants it is being deleted, or its pods leave node by node
	// (docs/adr/0014). They still need the label: without it the DaemonSet controller deletes them all.
	// The last gr that is deleted removes it itself. Or it is not known whether the node has lost its device for good.
	stillNeeded
	// desired: a gr that is not being deleted wants it.
	desired
)

// wantedBy returns whether grs want a label on a node: every gr wants the GCU label on GCU nodes,
// and those that deploy gcusharePlugin want its label on their nodes (contract statements 28 and
// 54).
func wantedBy(claims Inputs, node *corev1.Node, label string) wanted {
	w := unwanted
	for i := range claims.Resources {
		gr := &claims.Resources[i]
		switch {
		case label == topsv1.LabelGcushare && claims.Unknown[gr.UID]:
			w = max(w, stillNeeded)
		case label == topsv1.LabelGcushare && !component.SharesCards(&gr.Spec) && claims.Leaving[gr.UID]:
			w = max(w, stillNeeded)
		case label == topsv1.LabelGcushare && !sharesCardsOf(&gr.Spec, node):
		case gr.DeletionTimestamp != nil:
			w = max(w, stillNeeded)
		case label == topsv1.LabelGcushare || hasDevice(node):
			return desired
		case isUnreported(node) || IsUpgraded(node) || claims.CountsCards[node.Name]:
			w = max(w, stillNeeded)
		}
	}
	return w
}

// sharesCardsOf reports whether a spec shares the cards of a node: it names the node, or names
// none and the node is a GCU node.
func sharesCardsOf(spec *topsv1.GcuResourceSpec, node *corev1.Node) bool {
	if !component.SharesCards(spec) {
		return false
	}
	if named := spec.GcusharePlugin.GcushareNodes; len(named) > 0 {
		return slices.Contains(named, node.Name)
	}
	return isGCUNode(node)
}

// decide returns the change to a label of a node. A label that someone else set is left alone and
// never recorded as ours.
func decide(node *corev1.Node, label string, w wanted) change {
	value, present := node.Labels[label]
	recorded := slices.Contains(Owned(node), label)
	switch {
	case recorded && present && value != "true":
		return disown
	case w == desired && !present:
		return set
	case recorded && w == unwanted:
		return remove
	}
	return keep
}

// Relabeled returns the node with the labels that the claims want and their record, or the same
// node if nothing changes.
func Relabeled(node *corev1.Node, claims Inputs) *corev1.Node {
	after := node
	for _, label := range labels {
		todo := decide(node, label, wantedBy(claims, node, label))
		if todo == keep {
			continue
		}
		if after == node {
			after = node.DeepCopy()
		}
		apply(after, label, todo)
	}
	return after
}

// apply carries out one change on a copy of a node.
func apply(node *corev1.Node, label string, todo change) {
	record := withRecord(Owned(node), label, todo == set)
	switch todo {
	case set:
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels[label] = "true"
	case remove:
		delete(node.Labels, label)
	}
	if record == "" {
		delete(node.Annotations, topsv1.AnnotationOwnedLabels)
		return
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[topsv1.AnnotationOwnedLabels] = record
}

// Owned returns the labels that this operator recorded as its own on a node.
func Owned(node *corev1.Node) []string {
	recorded := node.Annotations[topsv1.AnnotationOwnedLabels]
	if recorded == "" {
		return nil
	}
	return strings.Split(recorded, ",")
}

// withRecord returns the record of owned labels with the label added or removed; "" if none is
// left.
func withRecord(owned []string, label string, add bool) string {
	kept := slices.DeleteFunc(slices.Clone(owned), func(have string) bool { return have == label })
	if add {
		kept = append(kept, label)
	}
	slices.Sort(kept)
	return strings.Join(kept, ",")
}

// Anticipated returns the nodes with the labels that the gr will give them, so that a component
// does not count as running everywhere just because its nodes are not labeled yet. Guarded nodes are
// left as they are. Labels that will be removed are still there.
func Anticipated(nodes []*corev1.Node, gr *topsv1.GcuResource) []*corev1.Node {
	claims := Inputs{Resources: []topsv1.GcuResource{*gr}}
	out := make([]*corev1.Node, 0, len(nodes))
	for _, node := range nodes {
		for _, label := range labels {
			if _, there := node.Labels[label]; !there && !isGuarded(node) && decide(node, label, wantedBy(claims, node, label)) == set {
				node = withOwnLabels(node)
				apply(node, label, set)
			}
		}
		out = append(out, node)
	}
	return out
}

// withOwnLabels returns a copy of a node with its own labels and annotations, sharing everything
// else.
func withOwnLabels(node *corev1.Node) *corev1.Node {
	after := *node
	after.Labels, after.Annotations = maps.Clone(node.Labels), maps.Clone(node.Annotations)
	return &after
}
