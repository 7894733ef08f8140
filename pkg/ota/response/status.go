package response

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// StatusOf returns the response for the state of a node; nodeUpgrade is the last known one,
// or nil.
func StatusOf(node *request.Node, operations []request.Operation, nodeUpgrade *topsv1.NodeUpgrade) Status {
	status := Status{Node: node.Name, AdministratorHold: AdministratorHold(nodeUpgrade), Components: []Component{}}
	operations = slices.Clone(operations)
	for i := range operations {
		if nodeUpgrade != nil {
			operations[i] = operations[i].Follow(nodeUpgrade.Status.Tasks, metav1.Time{})
		}
	}
	if i := request.Unfinished(operations); i >= 0 {
		status.Running = operations[i].ID
	}
	for _, p := range node.Placed() {
		status.Components = append(status.Components, componentOf(p, operations))
	}
	return status
}

// componentOf returns the response for a pod.
func componentOf(p request.Placed, operations []request.Operation) Component {
	running := request.TemplateOf(&p.Pod.Spec, daemonset.RevisionHash(p.Pod))
	c := Component{
		Component: p.DaemonSet.Component, Namespace: p.Pod.Namespace, DaemonSet: p.DaemonSet.Ref.Name, Pod: p.Pod.Name,
		Strategy: string(p.DaemonSet.Strategy),
		Running:  Version{Revision: running.Revision, Version: running.Version, Images: running.Images}, LastOperation: lastOf(operations, p.DaemonSet.Ref),
	}
	if condition := daemonset.NeedUpgrade(p.Pod); condition != nil {
		c.NeedUpgrade = ptr.To(condition.Status == corev1.ConditionTrue)
	}
	if hash := request.Newest(p.Pod); hash != "" {
		c.Available = &Version{Revision: hash}
		if t := p.DaemonSet.Target; t != nil && t.Revision == hash {
			c.Available.Version, c.Available.Images = t.Version, t.Images
		}
	}
	return c
}

// lastOf returns the newest operation that included a DaemonSet.
func lastOf(operations []request.Operation, daemonSet topsv1.NamespacedRef) *LastOperation {
	for _, o := range slices.Backward(operations) {
		for _, p := range o.Parts {
			if p.DaemonSet.UID == daemonSet.UID {
				return &LastOperation{ID: o.ID, State: p.State, Message: p.Message}
			}
		}
	}
	return nil
}

// AdministratorHold returns the hold by an administrator, or nil.
func AdministratorHold(nodeUpgrade *topsv1.NodeUpgrade) *topsv1.NodeHold {
	for _, h := range daemonset.HoldsOf(nodeUpgrade) {
		if h.By == daemonset.ByAdministrator {
			return &topsv1.NodeHold{Since: metav1.NewTime(h.Since), Message: h.Message}
		}
	}
	return nil
}
