package response

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// Status is the state of this node.
type Status struct {
	// Node is the name of the node.
	Node string `json:"node"`
	// Connected reports whether the API server was available for this response; if not, the
	// response is what was seen at AsOf.
	Connected bool         `json:"connected"`
	AsOf      *metav1.Time `json:"asOf,omitempty"`
	// Hold is the hold set locally on this node. AdministratorHold is the last known hold
	// by an administrator, which only an administrator can release (kubectl gcu release).
	Hold              *topsv1.NodeHold `json:"hold,omitempty"`
	AdministratorHold *topsv1.NodeHold `json:"administratorHold,omitempty"`
	// AddressInUse is the TCP address of this endpoint while another process listens there, and
	// the endpoint is served on its socket only; else "".
	AddressInUse string `json:"addressInUse,omitempty"`
	// Running is the id of the unfinished operation, or "".
	Running    string      `json:"running,omitempty"`
	Components []Component `json:"components"`
}

// Component is one pod of a DaemonSet on this node.
type Component struct {
	// Component is its key in the spec of a GcuResource, else the name of its DaemonSet.
	Component string `json:"component"`
	Namespace string `json:"namespace"`
	DaemonSet string `json:"daemonSet"`
	Pod       string `json:"pod"`
	// Strategy is its update strategy: OTA, AdvancedRollingUpdate, or "".
	Strategy string `json:"strategy"`
	// NeedUpgrade is the condition PodNeedUpgrade, nil if the pod has none.
	NeedUpgrade *bool `json:"needUpgrade,omitempty"`
	// Running is the version of the pod, Available the newest one if known.
	Running   Version  `json:"running"`
	Available *Version `json:"available,omitempty"`
	// LastOperation is the newest one that included the component.
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
}

// Version is one revision of a component.
type Version struct {
	// Revision is the hash of the ControllerRevision.
	Revision string `json:"revision"`
	// Version is the tag of the first container image, or its digest.
	Version string   `json:"version,omitempty"`
	Images  []string `json:"images,omitempty"`
}

// LastOperation is the outcome of an operation for a component.
type LastOperation struct {
	ID      string        `json:"id"`
	State   request.State `json:"state"`
	Message string        `json:"message,omitempty"`
}

// Operation is what a call upgrades, and its outcome.
type Operation struct {
	ID string `json:"id"`
	// Component is that of the call, "" for all.
	Component string `json:"component,omitempty"`
	// Rollback: it restores the previous revision.
	Rollback bool          `json:"rollback,omitempty"`
	State    request.State `json:"state"`
	Message  string        `json:"message,omitempty"`
	// Offline is "queued" while it waits for the API server.
	Offline string `json:"offline,omitempty"`
	// Task is the current one, host_target_action, or "".
	Task         string       `json:"task,omitempty"`
	Progress     Progress     `json:"progress"`
	AcceptedTime metav1.Time  `json:"acceptedTime"`
	EndTime      *metav1.Time `json:"endTime,omitempty"`
	Requests     []Part       `json:"requests"`
}

// Progress counts the tasks of the node's operation, or the pods if there is none.
type Progress struct {
	Done  int `json:"done"`
	Total int `json:"total"`
}

// Part is one component in an operation.
type Part struct {
	Component string        `json:"component"`
	Namespace string        `json:"namespace"`
	Pod       string        `json:"pod"`
	Revision  string        `json:"revision"`
	State     request.State `json:"state"`
	Reason    string        `json:"reason,omitempty"`
	Message   string        `json:"message,omitempty"`
}

// Operations is a list, newest first.
type Operations struct {
	Operations []Operation `json:"operations"`
}

// Hold reports whether this node is held locally.
type Hold struct {
	Held bool             `json:"held"`
	Hold *topsv1.NodeHold `json:"hold,omitempty"`
	// AdministratorHold is set while an administrator holds the node, independently of
	// Held.
	AdministratorHold *topsv1.NodeHold `json:"administratorHold,omitempty"`
	// Offline is "queued" while the operator does not know of it yet.
	Offline string `json:"offline,omitempty"`
}

// Problem is an error (RFC 9457).
type Problem struct {
	// Title is the reason in one word, Status the HTTP status.
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail says what to do.
	Detail string `json:"detail"`
	// Operation that is in the way, or "".
	Operation string `json:"operation,omitempty"`
}

// OfflineQueued is the value of the Offline fields.
const OfflineQueued = "queued"
