package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HostReport is the state of the node as its agent reads it, written as a whole.
type HostReport struct {
	// time at which the node was read, by its own clock; renewed at least once a
	// minute, so an old time means that the agent is not running.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	Time metav1.Time `json:"time"`
	// bootID changes with each boot of the node.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	BootID string `json:"bootID,omitempty"`
	// driverVersion that is loaded; empty when none is.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	DriverVersion string `json:"driverVersion,omitempty"`
	// devices is the number of cards; absent when they could not be counted.
	// +optional
	Devices *int32 `json:"devices,omitempty"`
	// freeDiskBytes where the container engine keeps images; absent when unknown.
	// +optional
	FreeDiskBytes *int64 `json:"freeDiskBytes,omitempty"`
	// runtime is the container engine; absent when none answers.
	// +optional
	Runtime *RuntimeReport `json:"runtime,omitempty"`
	// deviceHolders are the processes that have a device of the accelerator open, also a
	// control device; those outside of pods first, then by pid. What is open keeps the
	// driver from being removed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	DeviceHolders []DeviceHolder `json:"deviceHolders,omitempty"`
	// moreDeviceHolders counts those that are not listed.
	// +optional
	MoreDeviceHolders int32 `json:"moreDeviceHolders,omitempty"`
	// deviceHoldersVisible is true when every process was looked at, and false when the
	// agent could not look at some of them, as without the capability SYS_PTRACE:
	// deviceHolders may be incomplete. Absent when nothing is known, as with an older agent.
	// +optional
	DeviceHoldersVisible *bool `json:"deviceHoldersVisible,omitempty"`
	// missing says what could not be read, and why.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=1024
	Missing []string `json:"missing,omitempty"`
	// results of the tasks of the agent.
	// +optional
	// +listType=map
	// +listMapKey=operation
	// +listMapKey=task
	// +kubebuilder:validation:MaxItems=64
	Results []HostTaskResult `json:"results,omitempty"`
}

// DeviceHolder is a process that has a device of the accelerator open.
type DeviceHolder struct {
	// pid in the process namespace of the host.
	PID int32 `json:"pid"`
	// command is the name of the process, without arguments.
	// +kubebuilder:validation:MaxLength=256
	Command string `json:"command"`
	// uid of the user of the process.
	UID int64 `json:"uid"`
	// container it runs in, as engine://id, or the id alone when the engine is not known;
	// empty outside of a container.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Container string `json:"container,omitempty"`
	// podUID of its pod; empty outside of a pod. For a static pod it is the one that the
	// kubelet knows, not that of its mirror in the API.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	PodUID string `json:"podUID,omitempty"`
	// device is the path of one that it has open.
	// +kubebuilder:validation:MaxLength=1024
	Device string `json:"device"`
}

// RuntimeReport is the container engine of a node.
type RuntimeReport struct {
	// engine is docker or containerd.
	// +kubebuilder:validation:MaxLength=63
	Engine string `json:"engine"`
	// version of the engine.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Version string `json:"version,omitempty"`
	// default is the name of the default runtime of the running daemon.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Default string `json:"default,omitempty"`
	// startTime is when the running daemon was started, by the clock of the node; absent when that
	// is not known. A device plugin that is older and offers no card is replaced.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// defaultSince is when default became the default runtime, by the clock of the node; absent
	// when that is not known because it already was when the agent first looked. Pods of the operator's components
	// that use cards and started earlier have no card, and are replaced.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	DefaultSince *metav1.Time `json:"defaultSince,omitempty"`
	// restartStopsContainers reports whether a restart stops the containers; absent
	// when that is not known, which counts as yes.
	// +optional
	RestartStopsContainers *bool `json:"restartStopsContainers,omitempty"`
}

// DefaultRuntime is the container runtime through which containers get cards, unless an operation
// names another one.
const DefaultRuntime = "enflame"

// NeedsRestart reports whether the container engine has to be restarted before containers get
// cards: the node agent reports a default runtime other than DefaultRuntime. It is false while none
// is reported.
func (h *HostReport) NeedsRestart() bool {
	return h != nil && h.Runtime != nil && h.Runtime.Default != "" && h.Runtime.Default != DefaultRuntime
}

// HostTaskResult is the result of one task on the host.
type HostTaskResult struct {
	// operation the task belongs to.
	// +kubebuilder:validation:MaxLength=63
	Operation string `json:"operation"`
	// task is host_target_action.
	// +kubebuilder:validation:MaxLength=381
	Task string `json:"task"`
	// attempt of the task that this result is about.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`
	// state of the task.
	State HostTaskState `json:"state"`
	// reason in one word.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Reason string `json:"reason,omitempty"`
	// message is the explanation.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// startTime of the first attempt.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// endTime of the last attempt.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`
	EndTime *metav1.Time `json:"endTime,omitempty"`
}

// HostTaskState is the state of a task on the host.
//
// +kubebuilder:validation:Enum=Running;Waiting;Done;Failed
type HostTaskState string

const (
	// HostTaskRunning means that the task has started.
	HostTaskRunning HostTaskState = "Running"
	// HostTaskWaiting means that the task waits for someone to act.
	HostTaskWaiting HostTaskState = "Waiting"
	// HostTaskDone means that the task succeeded.
	HostTaskDone HostTaskState = "Done"
	// HostTaskFailed means that the task failed.
	HostTaskFailed HostTaskState = "Failed"
)

// Final reports whether the state is final for this attempt.
func (s HostTaskState) Final() bool { return s == HostTaskDone || s == HostTaskFailed }

// Result returns what the agent reports about a task of an operation; nil if it
// has reported nothing, or if the report is nil.
func (r *HostReport) Result(operation, task string) *HostTaskResult {
	if r == nil {
		return nil
	}
	for i := range r.Results {
		if r.Results[i].Operation == operation && r.Results[i].Task == task {
			return &r.Results[i]
		}
	}
	return nil
}
