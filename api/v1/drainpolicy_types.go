package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DrainPolicy says which pods leave a node, and how. Pods of DaemonSets and
// static pods stay, and so does the operator itself.
//
// +kubebuilder:validation:XValidation:rule="!has(self.waitForJobsSeconds) || self.waitForJobsSeconds < self.timeoutSeconds",message="waitForJobsSeconds must be less than timeoutSeconds, or pods of Jobs are never evicted"
type DrainPolicy struct {
	// scope is which pods are evicted. Accelerator: those that use a GCU, by
	// resources, devicePaths or drivers, or with the environment variable
	// ENFLAME_VISIBLE_DEVICES. All: every pod. None: no pod; a driver in use
	// cannot be replaced. Default Accelerator.
	// +optional
	// +kubebuilder:default=Accelerator
	Scope DrainScope `json:"scope,omitempty"`
	// podSelector limits the pods in scope to those with matching labels; the
	// others are left on the node. Default: all of them.
	// +optional
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	// resources are the extended resources of GCUs: names, or beginnings of names
	// that end with *. Default enflame.com/* and enflame-tech.com/*.
	// +optional
	// +listType=set
	// +kubebuilder:default={"enflame.com/*","enflame-tech.com/*"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=317
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?|[-A-Za-z0-9_.]*\*)$`
	Resources []string `json:"resources,omitempty"`
	// devicePaths are host paths of GCU devices: a pod with a hostPath volume of
	// one uses a GCU. Paths, or beginnings of paths that end with *.
	// Default /dev/gcu* and /dev/vgcu*.
	// +optional
	// +listType=set
	// +kubebuilder:default={"/dev/gcu*","/dev/vgcu*"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=255
	// +kubebuilder:validation:items:Pattern=`^/[^*]+\*?$`
	DevicePaths []string `json:"devicePaths,omitempty"`
	// drivers are the DRA drivers whose devices are GCUs: a pod with a
	// ResourceClaim that is allocated from one uses a GCU. Names, which may begin
	// or end with *. Default *.enflame.com.
	// +optional
	// +listType=set
	// +kubebuilder:default={"*.enflame.com"}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=65
	// +kubebuilder:validation:items:Pattern=`^\*?[-.]?[a-z0-9]([-a-z0-9.]*[a-z0-9])?[-.]?\*?$`
	Drivers []string `json:"drivers,omitempty"`
	// gracePeriodSeconds a pod has to terminate. Default: the pod's own.
	// +optional
	// +kubebuilder:validation:Minimum=1
	GracePeriodSeconds *int32 `json:"gracePeriodSeconds,omitempty"`
	// timeoutSeconds is how long a drain may take. After that the node
	// is uncordoned, and the drain is retried later; if all that is left are pods
	// that were evicted, they have their grace periods. Default 300.
	// +optional
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=1
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// waitForJobsSeconds is how long pods of Jobs are left to complete before they
	// are evicted, counted from the same moment as timeoutSeconds. Default 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	WaitForJobsSeconds int32 `json:"waitForJobsSeconds,omitempty"`
	// emptyDir is what happens to pods whose emptyDir volumes are lost when they are
	// evicted: Delete evicts them; Block leaves them, and the drain waits until they
	// are gone. Default Block.
	// +optional
	// +kubebuilder:default=Block
	EmptyDir DrainAction `json:"emptyDir,omitempty"`
	// unmanaged is what happens to pods that no controller recreates: Delete evicts
	// them; Block leaves them, and the drain waits until they are gone. Default Block.
	// +optional
	// +kubebuilder:default=Block
	Unmanaged DrainAction `json:"unmanaged,omitempty"`
}

// DrainScope is which pods are evicted from a node.
//
// +kubebuilder:validation:Enum=Accelerator;All;None
type DrainScope string

// Scopes of a drain.
const (
	DrainAccelerator DrainScope = "Accelerator"
	DrainAll         DrainScope = "All"
	DrainNone        DrainScope = "None"
)

// DrainAction is what happens to pods that would lose something when evicted.
//
// +kubebuilder:validation:Enum=Delete;Block
type DrainAction string

const (
	// DrainDelete evicts them anyway.
	DrainDelete DrainAction = "Delete"
	// DrainBlock leaves them on the node; the drain waits for them.
	DrainBlock DrainAction = "Block"
)
