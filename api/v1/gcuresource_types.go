package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// GcuResource says which Enflame GCU software runs on the cluster's GCU nodes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must have at most 63 characters, it is used as a label value"
// +kubebuilder:resource:path=gcuresources,singular=gcuresource,shortName=gr,scope=Cluster
// +kubebuilder:printcolumn:name="READY",type=string,JSONPath=`.status.readyResource`
// +kubebuilder:printcolumn:name="STATUS",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="STRATEGY",type=string,priority=1,JSONPath=`.metadata.annotations.topsops\.enflame\.com/update-strategy`
// +kubebuilder:printcolumn:name="MESSAGE",type=string,priority=1,JSONPath=`.status.conditions[-1:].message`
type GcuResource struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata; the name is chosen by the user.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec lists the components to deploy. An empty spec deploys nothing.
	// +optional
	Spec GcuResourceSpec `json:"spec,omitempty"`
	// status is written by the operator; users do not edit it.
	// +optional
	// Its default tells tools that follow kstatus that no operator has seen the gr yet.
	// +kubebuilder:default={"observedGeneration":-1}
	Status GcuResourceStatus `json:"status,omitempty"`
}

// GcuResourceList is a list of GcuResource.
//
// +kubebuilder:object:root=true
type GcuResourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the GcuResources.
	Items []GcuResource `json:"items"`
}

// GcuResourceSpec has one key per component, and imagePullSecrets. A component that is absent, or
// whose notDeploy is true, is not deployed.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.plugin) && has(self.devicePlugin))",message="plugin is another name for devicePlugin: set only devicePlugin"
// +kubebuilder:validation:XValidation:rule="!(((has(self.devicePlugin) && !self.devicePlugin.notDeploy) || (has(self.plugin) && !self.plugin.notDeploy)) && ((has(self.gcusharePlugin) && !self.gcusharePlugin.notDeploy) || (has(self.gcushareScheduler) && !self.gcushareScheduler.notDeploy)))",message="devicePlugin and gcusharePlugin or gcushareScheduler cannot be deployed together, they would hand out the same cards twice: set notDeploy: true on one side"
type GcuResourceSpec struct {
	// nfd is node-feature-discovery, which finds the GCU devices.
	// +optional
	NFD *NFDSpec `json:"nfd,omitempty"`
	// driver is the GCU kernel driver.
	// +optional
	Driver *BaseFields `json:"driver,omitempty"`
	// toolkit is the container toolkit (the enflame container runtime).
	// +optional
	Toolkit *BaseFields `json:"toolkit,omitempty"`
	// devicePlugin is the Kubernetes device plugin for whole cards.
	// +optional
	DevicePlugin *BaseFields `json:"devicePlugin,omitempty"`
	// plugin is another name for devicePlugin; setting both is rejected.
	// +optional
	Plugin *BaseFields `json:"plugin,omitempty"`
	// exporter is the Prometheus exporter of the cards.
	// +optional
	Exporter *BaseFields `json:"exporter,omitempty"`
	// gfd is GCU feature discovery, which labels nodes with their cards.
	// +optional
	GFD *BaseFields `json:"gfd,omitempty"`
	// nightingale is the Nightingale monitoring system.
	// +optional
	Nightingale *NightingaleSpec `json:"nightingale,omitempty"`
	// gcusharePlugin is the device plugin for shared cards; it excludes devicePlugin.
	// +optional
	GcusharePlugin *GcusharePluginSpec `json:"gcusharePlugin,omitempty"`
	// gcushareScheduler schedules pods on shared cards.
	// +optional
	GcushareScheduler *BaseFields `json:"gcushareScheduler,omitempty"`
	// volcano is the Volcano batch system.
	// +optional
	Volcano *VolcanoSpec `json:"volcano,omitempty"`
	// imagePullSecrets name the Secrets with which images are pulled, at most 8, in the namespace
	// of each component. It is not a component. Default: those of the ServiceAccount of the pods.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(s, s.name != '')",message="a pull secret needs a name"
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// Phase words of a GcuResource and of each of its components (contract
// statements 39 and 43, decisions D3 and D6). Phases of work in progress are
// lower case; Running is not.
const (
	PhaseDeploying   = "deploying"
	PhaseDeleting    = "deleting"
	PhaseUpgrading   = "upgrading"
	PhaseRollbacking = "rollbacking"
	PhaseRunning     = "Running"
	PhaseFailed      = "failed"
)

// Actions that a condition of a GcuResource names: what the operator does with a component (contract statement 38).
const (
	ActionDeploy   = "deploy"
	ActionDelete   = "delete"
	ActionUpgrade  = "upgrade"
	ActionRollback = "rollback"
)

// ConditionSuccess is the status, reason and message of a finished action.
const ConditionSuccess = "success"

// GcuResourceStatus is what the operator observed.
type GcuResourceStatus struct {
	// clusterGCUNodes names all GCU nodes of the cluster, offline ones included, sorted.
	// +optional
	// +listType=atomic
	ClusterGCUNodes []string `json:"clusterGCUNodes,omitempty"`
	// conditions has one element per action, the newest last. For tools that follow kstatus, they are preceded
	// by Reconciling, with status True, while there is something left to do, or by Stalled when a user has to act.
	// +optional
	// +listType=map
	// +listMapKey=action
	// +kubebuilder:validation:MaxItems=10
	Conditions []ActionCondition `json:"conditions,omitempty"`
	// observedGeneration is the metadata.generation this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is deploying, deleting, upgrading, rollbacking, failed or Running;
	// empty before the operator first writes. Running means that every
	// component has its pods available on every Ready node.
	// +optional
	Phase string `json:"phase,omitempty"`
	// readyResource is "ready/total": components Running of the components this gr deploys.
	// +optional
	ReadyResource string `json:"readyResource,omitempty"`
	// resourceStatuses has one element per deployed component, in deployment order.
	// +optional
	// +listType=map
	// +listMapKey=name
	ResourceStatuses []ResourceStatus `json:"resourceStatuses,omitempty"`
	// standardConditions are the usual Kubernetes conditions, for tools.
	// +optional
	// +listType=map
	// +listMapKey=type
	StandardConditions []metav1.Condition `json:"standardConditions,omitempty"`
}

// ActionCondition is the progress of one action on the gr.
type ActionCondition struct {
	// action is deploy, delete, upgrade or rollback; Reconciling or Stalled.
	Action string `json:"action"`
	// type repeats action, so that kubectl wait --for=condition=deploy=success works.
	// +optional
	Type string `json:"type,omitempty"`
	// lastUpdateTime is when this condition last changed.
	LastUpdateTime metav1.Time `json:"lastUpdateTime"`
	// message says what the action waits for and why; "success" when finished.
	// +optional
	Message string `json:"message,omitempty"`
	// progress is the percentage that is done; 100 when finished.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Progress int32 `json:"progress"`
	// reason is one word for the state; "success" when finished.
	// +optional
	Reason string `json:"reason,omitempty"`
	// status is deploying, deleting, upgrading, rollbacking, failed or success; for Reconciling and Stalled it is True.
	Status string `json:"status"`
}

// ResourceStatus is the state of one component.
type ResourceStatus struct {
	// name is the component's key in the spec.
	Name string `json:"name"`
	// namespace is where the component's namespaced objects are.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// ownResources lists the objects of the component that exist.
	// +optional
	// +listType=atomic
	OwnResources []ResourceInfo `json:"ownResources,omitempty"`
	// status is one of the values of phase.
	Status string `json:"status"`
	// message says what the component waits for or why it failed; empty when it is
	// Running on every node.
	// +optional
	Message string `json:"message,omitempty"`
}

// ResourceInfo identifies one object. The group key is absent for core kinds.
type ResourceInfo struct {
	// group is the API group; absent for the core group.
	// +optional
	Group string `json:"group,omitempty"`
	// kind of the object.
	Kind string `json:"kind"`
	// name of the object.
	Name string `json:"name"`
	// version of the API group.
	Version string `json:"version"`
}
