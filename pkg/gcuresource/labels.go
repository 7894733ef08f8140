package gcuresource

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// deviceLabel matches the labels with which node-feature-discovery reports a
// device of PCI vendor 1e36 (components.md section 1.0), whether it is set to
// label by vendor or by class and vendor.
var deviceLabel = regexp.MustCompile(`^feature\.node\.kubernetes\.io/pci-([0-9a-f]{4}_)?1e36(_[0-9a-f_]+)?\.present$`)

// hasDevice tells whether node-feature-discovery found a GCU on the node.
func hasDevice(node *corev1.Node) bool {
	for key, value := range node.Labels {
		if value == "true" && deviceLabel.MatchString(key) {
			return true
		}
	}
	return false
}

// gcuNodes names the GCU nodes, offline ones included: those with a device and
// those somebody labelled as such. The order is that of nodes.
func gcuNodes(nodes []*corev1.Node) []string {
	var found []string
	for _, node := range nodes {
		if hasDevice(node) || node.Labels[topsv1.LabelGcuPresent] == "true" {
			found = append(found, node.Name)
		}
	}
	return found
}

// labelChange is what is to be done about LabelGcuPresent on a node.
type labelChange int

const (
	labelKeep labelChange = iota
	// labelSet sets the label and records that it is ours.
	labelSet
	// labelRemove removes the label and the record.
	labelRemove
	// labelDisown removes the record only: somebody gave the label another value.
	labelDisown
)

// wanted says whether GCU nodes are to be labelled at all.
type wanted int

const (
	// wantedNo: no gr is left.
	wantedNo wanted = iota
	// wantedHold: every gr is being deleted. Their pods still need the labels,
	// and the last one of them removes the labels itself.
	wantedHold
	// wantedYes: at least one gr is to stay.
	wantedYes
)

// wantedBy returns what the grs of the cluster want.
func wantedBy(grs []topsv1.GcuResource) wanted {
	if len(grs) == 0 {
		return wantedNo
	}
	for i := range grs {
		if grs[i].DeletionTimestamp == nil {
			return wantedYes
		}
	}
	return wantedHold
}

// decideLabel says what is to be done about LabelGcuPresent on a node. A label
// somebody else set is left alone and never recorded as ours.
func decideLabel(node *corev1.Node, w wanted) labelChange {
	value, present := node.Labels[topsv1.LabelGcuPresent]
	recorded := slices.Contains(ownedLabels(node), topsv1.LabelGcuPresent)
	want := w == wantedYes && hasDevice(node)
	switch {
	case recorded && present && value != "true":
		return labelDisown
	case want && !present:
		return labelSet
	case recorded && !want && w != wantedHold:
		return labelRemove
	}
	return labelKeep
}

// ownedLabels returns the labels of a node this operator recorded as its own.
func ownedLabels(node *corev1.Node) []string {
	recorded := node.Annotations[topsv1.AnnotationOwnedLabels]
	if recorded == "" {
		return nil
	}
	return strings.Split(recorded, ",")
}

// withRecord returns the record of owned labels with the label added or taken out;
// "" means that none is left.
func withRecord(owned []string, label string, add bool) string {
	kept := slices.DeleteFunc(slices.Clone(owned), func(have string) bool { return have == label })
	if add {
		kept = append(kept, label)
	}
	slices.Sort(kept)
	return strings.Join(kept, ",")
}

// labelled returns the nodes as they will be once every GCU node has its label,
// so that a component does not count as running everywhere just because the
// nodes it is for are not labelled yet.
func labelled(nodes []*corev1.Node) []*corev1.Node {
	out := make([]*corev1.Node, 0, len(nodes))
	for _, node := range nodes {
		if decideLabel(node, wantedYes) == labelSet {
			node = node.DeepCopy()
			node.Labels[topsv1.LabelGcuPresent] = "true"
		}
		out = append(out, node)
	}
	return out
}
