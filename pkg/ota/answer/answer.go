package answer

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// Status is how this node stands.
type Status struct {
	// Node is its name.
	Node string `json:"node"`
	// Connected reports whether the API server could be used for this answer; if not,
	// it says what was seen at AsOf.
	Connected bool         `json:"connected"`
	AsOf      *metav1.Time `json:"asOf,omitempty"`
	// Hold is set while its person wants this node left alone, AdministratorHold while an
	// administrator does, as far as is known: only they release it (kubectl gcu release).
	Hold              *topsv1.NodeHold `json:"hold,omitempty"`
	AdministratorHold *topsv1.NodeHold `json:"administratorHold,omitempty"`
	// Running is the id of the operation that has not ended, "" for none.
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
	// Strategy with which it is upgraded: OTA, AdvancedRollingUpdate, or "".
	Strategy string `json:"strategy"`
	// NeedUpgrade is the condition PodNeedUpgrade; nil when the pod has none.
	NeedUpgrade *bool `json:"needUpgrade,omitempty"`
	// Running is the version of the pod, Available the newest one, when it is known.
	Running   Version  `json:"running"`
	Available *Version `json:"available,omitempty"`
	// LastOperation is the newest one that the component was part of.
	LastOperation *LastOperation `json:"lastOperation,omitempty"`
}

// Version is one revision of a component.
type Version struct {
	// Revision is the hash of the ControllerRevision.
	Revision string `json:"revision"`
	// Version is the tag, or the digest, of the first image of its containers.
	Version string   `json:"version,omitempty"`
	Images  []string `json:"images,omitempty"`
}

// LastOperation is what became of a component in an operation.
type LastOperation struct {
	ID      string        `json:"id"`
	State   request.State `json:"state"`
	Message string        `json:"message,omitempty"`
}

// Operation is what was asked for at once, and what became of it.
type Operation struct {
	ID string `json:"id"`
	// Component that was asked for, "" for all.
	Component string        `json:"component,omitempty"`
	State     request.State `json:"state"`
	Message   string        `json:"message,omitempty"`
	// Offline is "queued" while it waits for the API server.
	Offline string `json:"offline,omitempty"`
	// Task is the current one, host_target_action, "" for none.
	Task         string       `json:"task,omitempty"`
	Progress     Progress     `json:"progress"`
	AcceptedTime metav1.Time  `json:"acceptedTime"`
	EndTime      *metav1.Time `json:"endTime,omitempty"`
	Requests     []Part       `json:"requests"`
}

// Progress counts the tasks of the job on the node, or the pods when there is none.
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

// Operations is a list, the newest first.
type Operations struct {
	Operations []Operation `json:"operations"`
}

// Hold reports whether this node is left alone, as its person wants.
type Hold struct {
	Held bool             `json:"held"`
	Hold *topsv1.NodeHold `json:"hold,omitempty"`
	// AdministratorHold is set while an administrator wants it left alone, whatever
	// its person wants.
	AdministratorHold *topsv1.NodeHold `json:"administratorHold,omitempty"`
	// Offline is "queued" when the operator does not know of it yet.
	Offline string `json:"offline,omitempty"`
}

// Problem is an error (RFC 9457).
type Problem struct {
	// Title is the reason in one word, Status that of HTTP.
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail says what to do.
	Detail string `json:"detail"`
	// Operation is the one that is in the way, "" for none.
	Operation string `json:"operation,omitempty"`
}

// OfflineQueued is the value of the fields Offline.
const OfflineQueued = "queued"
