package v1

import corev1 "k8s.io/api/core/v1"

// BaseFields are the settings every component has; each is optional (contract
// section 2.2). A component that has children of this type wins over them:
// a field set on the component makes the child's field of the same name
// ineffective.
type BaseFields struct {
	// notDeploy true leaves the component out. Default false.
	// +optional
	// +kubebuilder:default=false
	NotDeploy bool `json:"notDeploy"`
	// image is the image name without repository and tag. Default: the built-in one of the component.
	// +optional
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._/-]*$`
	Image string `json:"image,omitempty"`
	// imagePullPolicy is Always, IfNotPresent or Never. Default IfNotPresent.
	// +optional
	// +kubebuilder:default=IfNotPresent
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// name of the component's controller object. Default: the built-in one of the component.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// namespace of the component. Default kube-system.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
	// repository comes before the image name.
	// Default artifact.enflame.cn/enflame_docker_images/enflame.
	// +optional
	// +kubebuilder:default="artifact.enflame.cn/enflame_docker_images/enflame"
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._:/-]*$`
	Repository string `json:"repository,omitempty"`
	// version is the image tag, its digest (sha256:…), or both (tag@sha256:…): then the digest
	// is used. Default latest.
	// +optional
	// +kubebuilder:default=latest
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:Pattern=`^([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}(@sha256:[a-f0-9]{64})?|sha256:[a-f0-9]{64})$`
	Version string `json:"version,omitempty"`
	// imagePullSecrets name the Secrets of the component's namespace with which its images are
	// pulled, at most 8; they replace those of the gr. The containers of nfd are in one pod,
	// which has those of both. Default: those of the gr. The node agent pulls images in advance
	// only with Secrets that it may read (docs/install.md).
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(s, s.name != '')",message="a pull secret needs a name"
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	// env is added to the containers; an entry replaces a built-in one of the same name.
	// +optional
	// +listType=map
	// +listMapKey=name
	Env []corev1.EnvVar `json:"env,omitempty"`
	// nodeSelector replaces the built-in node selector of the component.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
}

// NFDSpec configures node-feature-discovery: one DaemonSet with a master and a worker container.
type NFDSpec struct {
	// notDeploy true leaves the component out. Default false.
	// +optional
	// +kubebuilder:default=false
	NotDeploy bool `json:"notDeploy"`
	// name of the DaemonSet. Default node-feature-discovery-ds.
	// +optional
	// +kubebuilder:default=node-feature-discovery-ds
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// namespace of the DaemonSet. Default kube-system.
	// +optional
	// +kubebuilder:default=kube-system
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
	// nodeSelector of the DaemonSet. Default: every node.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// master configures the container that writes node labels.
	// +optional
	Master *BaseFields `json:"master,omitempty"`
	// worker configures the container that finds features.
	// +optional
	Worker *BaseFields `json:"worker,omitempty"`
}

// NightingaleSpec configures the Nightingale monitoring system.
//
// +kubebuilder:validation:XValidation:rule="self.notDeploy || oldSelf.notDeploy || self.__namespace__ == oldSelf.__namespace__",message="namespace cannot be changed while nightingale is deployed, its database would stay behind: set notDeploy: true first, copy Secret nightingale-mysql to the new namespace, change it when nightingale is gone"
// +kubebuilder:validation:XValidation:rule="self.notDeploy || oldSelf.notDeploy || ((has(self.mysql__dash__pv) ? self.mysql__dash__pv.name : 'mysql-pv') == (has(oldSelf.mysql__dash__pv) ? oldSelf.mysql__dash__pv.name : 'mysql-pv') && (has(self.mysql__dash__pvc) ? self.mysql__dash__pvc.name : 'mysql-pvc') == (has(oldSelf.mysql__dash__pvc) ? oldSelf.mysql__dash__pvc.name : 'mysql-pvc'))",message="mysql-pv.name and mysql-pvc.name cannot be changed while nightingale is deployed, its database would lose its files: set notDeploy: true first, change them when nightingale is gone"
type NightingaleSpec struct {
	// notDeploy true leaves the component out. Default false.
	// +optional
	// +kubebuilder:default=false
	NotDeploy bool `json:"notDeploy"`
	// namespace of all its objects. Default enflame. It is created when
	// missing and is never deleted. It stays as it is while nightingale is deployed.
	// +optional
	// +kubebuilder:default=enflame
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
	// agentd-deploy configures the ibex agent.
	// +optional
	Agentd *BaseFields `json:"agentd-deploy,omitempty"`
	// mysql-deploy configures the database. Its files are on one node: give it a
	// nodeSelector that matches only that node.
	// +optional
	MySQL *BaseFields `json:"mysql-deploy,omitempty"`
	// nserver-deploy configures the alerting server.
	// +optional
	NServer *BaseFields `json:"nserver-deploy,omitempty"`
	// nwebapi-deploy configures the web interface.
	// +optional
	NWebAPI *BaseFields `json:"nwebapi-deploy,omitempty"`
	// prometheus-deploy configures the time series database.
	// +optional
	Prometheus *BaseFields `json:"prometheus-deploy,omitempty"`
	// redis-deploy configures the cache.
	// +optional
	Redis *BaseFields `json:"redis-deploy,omitempty"`
	// mysql-pv is the volume of the database.
	// +optional
	MySQLPV *HostPathVolume `json:"mysql-pv,omitempty"`
	// mysql-pvc is the claim on the volume.
	// +optional
	MySQLPVC *VolumeClaim `json:"mysql-pvc,omitempty"`
}

// HostPathVolume is a PersistentVolume on a path of a node.
type HostPathVolume struct {
	// name of the PersistentVolume. It stays as it is while nightingale is deployed.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// hostpath is the absolute directory on the node. It is created when
	// missing and is kept with its files when the volume is deleted.
	// +kubebuilder:validation:Pattern=`^/`
	HostPath string `json:"hostpath"`
}

// VolumeClaim is a PersistentVolumeClaim.
type VolumeClaim struct {
	// name of the PersistentVolumeClaim. It stays as it is while nightingale is deployed.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// GcusharePluginSpec configures the device plugin for shared cards.
//
// +kubebuilder:validation:XValidation:rule="self.notDeploy || oldSelf.notDeploy || self.memoryUnit == oldSelf.memoryUnit",message="memoryUnit cannot be changed while gcusharePlugin is deployed, pods count their cards in it: set notDeploy: true first, change it when the plugin is gone"
type GcusharePluginSpec struct {
	BaseFields `json:",inline"`
	// memoryUnit is the slice of card memory handed out, in GiB: 1, 0.1, 0.01 or
	// 0.001, as a string. Default "1". It stays as it is while the plugin is deployed.
	// +optional
	// +kubebuilder:default="1"
	// +kubebuilder:validation:Enum="1";"0.1";"0.01";"0.001"
	MemoryUnit string `json:"memoryUnit,omitempty"`
	// gcushareNodes names the nodes whose cards are shared, at most 5000; they get
	// the label enflame.com/gcushare. Default, also when empty: all GCU nodes.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=5000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	GcushareNodes []string `json:"gcushareNodes,omitempty"`
}

// VolcanoSpec configures the Volcano batch system.
type VolcanoSpec struct {
	// notDeploy true leaves the component out. Default false.
	// +optional
	// +kubebuilder:default=false
	NotDeploy bool `json:"notDeploy"`
	// namespace of all its objects. Default volcano-system. It is created when
	// missing and is never deleted.
	// +optional
	// +kubebuilder:default=volcano-system
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`
	// controller configures the controller manager.
	// +optional
	Controller *BaseFields `json:"controller,omitempty"`
	// admission configures the admission webhook.
	// +optional
	Admission *BaseFields `json:"admission,omitempty"`
	// scheduler configures the scheduler.
	// +optional
	Scheduler *BaseFields `json:"scheduler,omitempty"`
}
