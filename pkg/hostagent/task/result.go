package task

import (
	"cmp"
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Reason of a state: a closed list.
type Reason string

// Reasons.
const (
	// ReasonInProgress: it has begun; nothing later is recorded.
	ReasonInProgress Reason = topsv1.ReasonInProgress
	// ReasonAlreadyDefault: the running daemon has the wanted default runtime, so
	// nothing is restarted (contract statement 86).
	ReasonAlreadyDefault Reason = "AlreadyDefault"
	// ReasonRestarted: the daemon is a new instance and has the wanted default runtime.
	ReasonRestarted Reason = topsv1.ReasonRestarted
	// ReasonLeftToAdministrator: a restart is needed but not allowed.
	ReasonLeftToAdministrator Reason = topsv1.ReasonLeftToAdministrator
	// ReasonNoEngine: neither docker nor containerd responds, or the one of the node does not: a
	// pull fails, a restart waits.
	ReasonNoEngine Reason = "NoEngine"
	// ReasonInstanceUnknown: the daemon's process is unknown, so that a restart could not be
	// detected.
	ReasonInstanceUnknown Reason = "InstanceUnknown"
	// ReasonNotConfigured: the configuration on disk lacks the wanted default runtime, so a
	// restart would change nothing. It is waited for at first.
	ReasonNotConfigured Reason = "NotConfigured"
	// ReasonNoServiceManager: there is neither systemd nor a restart command.
	ReasonNoServiceManager Reason = "NoServiceManager"
	// ReasonRestartFailed: the service manager or the command failed.
	ReasonRestartFailed Reason = topsv1.ReasonRestartFailed
	// ReasonWrongDefault: the daemon was restarted, with another default runtime.
	ReasonWrongDefault Reason = "WrongDefault"
	// ReasonNotBack: the daemon, or the agent's own container, was not back by the deadline;
	// or, before it, the daemon does not respond after a failure of the service manager.
	ReasonNotBack Reason = "NotBack"
	// ReasonNotRestarted: no restart was seen by the deadline.
	ReasonNotRestarted Reason = "NotRestarted"

	// ReasonPresent: the images were already on the node.
	ReasonPresent Reason = "Present"
	// ReasonPulled: images were pulled, and now all are present.
	ReasonPulled Reason = "Pulled"
	// ReasonLeftToKubelet: an image is not on the node, and its pull secret is none of the agent's:
	// the kubelet pulls it when the pod starts.
	ReasonLeftToKubelet Reason = topsv1.ReasonLeftToKubelet
	// ReasonBadPullSecret: a pull secret is malformed.
	ReasonBadPullSecret Reason = topsv1.ReasonBadPullSecret
	// ReasonPullFailed: the registry or the engine returned an error.
	ReasonPullFailed Reason = topsv1.ReasonPullFailed
	// ReasonPullTimedOut: the pull did not end in time.
	ReasonPullTimedOut Reason = topsv1.ReasonPullTimedOut
	// ReasonWithdrawn: it was ended because it was no longer requested.
	ReasonWithdrawn Reason = topsv1.ReasonWithdrawn

	// ReasonRead: the facts were read. The caller interprets them.
	ReasonRead Reason = "Read"
)

// Result is the recorded result of a task.
type Result struct {
	ID   string `json:"id"`
	Task string `json:"task"`
	// State, with a reason from the closed list and a message for people. A task that is Running is
	// not known to have ended: Execute continues it, or retries. Waiting: a person must act; Execute
	// checks again.
	State   topsv1.HostTaskState `json:"state"`
	Reason  Reason               `json:"reason"`
	Message string               `json:"message,omitempty"`
	// Attempt is that of the last executed Request.
	Attempt int `json:"attempt,omitempty"`
	// Since is that of the first Request.
	Since time.Time `json:"since,omitzero"`
	// Attempts counts how often it was begun; for a restart, the calls of the service
	// manager: more than one only when the earlier ones had no effect.
	Attempts int `json:"attempts,omitempty"`
	// Started is the start of the first attempt, Finished the end of the last one; zero while
	// it is running or waiting. UTC.
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	Facts    Facts     `json:"facts"`
}

// Facts are the observations of a task; nil: not made, or not possible.
type Facts struct {
	Runtime *RuntimeFacts `json:"runtime,omitempty"`
	Images  []ImageFacts  `json:"images,omitempty"`
	Host    *HostFacts    `json:"host,omitempty"`
}

// ImageFacts describes an image on this node.
type ImageFacts struct {
	// Name as requested.
	Name string `json:"name"`
	// ID of the image in the engine.
	ID string `json:"id"`
}

// RuntimeFacts describes the container engine that runs the pods.
type RuntimeFacts struct {
	Engine  Engine `json:"engine"`
	Version string `json:"version,omitempty"`
	// Default is the default runtime of the running daemon, not of its configuration.
	Default string `json:"default"`
	// RestartStopsContainers: restarting the engine stops its containers, as docker does
	// without live-restore, and containerd does not.
	RestartStopsContainers bool `json:"restartStopsContainers"`
	// Instance identifies the running process of the daemon, also across reboots. "" when
	// unknown.
	Instance string `json:"instance,omitempty"`
	// Started is when that process began; zero when unknown.
	Started time.Time `json:"started,omitzero"`
	// DefaultSince is when Default became the default runtime; zero when unknown.
	DefaultSince time.Time `json:"defaultSince,omitzero"`
}

// HostFacts are the facts from the files of the node. Unreadable ones are empty and explained
// in Missing.
type HostFacts struct {
	// DriverVersion is the version of the loaded driver (/sys/module/enflame/version); ""
	// when none is loaded.
	DriverVersion string `json:"driverVersion,omitempty"`
	// Devices is the number of cards (/dev/gcu0 and up); nil when they could not be counted.
	Devices *int `json:"devices,omitempty"`
	// BootID changes with each boot of the node.
	BootID string `json:"bootID,omitempty"`
	// FreeDiskBytes is the free space where the engine keeps images; nil when unknown.
	FreeDiskBytes *int64 `json:"freeDiskBytes,omitempty"`
	// Holders have a device of the accelerator open; nil when that could not be read, and
	// in results.
	Holders *DeviceHolders `json:"-"`
	// Missing explains what could not be read, in a fixed order.
	Missing []string `json:"missing,omitempty"`
}

// DeviceHolders are the processes that have a device of the accelerator open.
type DeviceHolders struct {
	// Visible is false when some processes could not be looked at, nearly always for want of permission.
	Visible bool
	// Processes are sorted: those outside of pods first, then by pid. More counts those beyond
	// MaxDeviceHolders.
	Processes []DeviceHolder
	More      int
}

// MaxDeviceHolders is the maximum number of processes that are named.
const MaxDeviceHolders = 16

// DeviceHolder is a process that has a device of the accelerator open.
type DeviceHolder struct {
	PID     int
	Command string
	UID     int64
	// Container and PodUID are as in procfs.ContainerOf.
	Container, PodUID string
	// Device is the path on the host of one of the devices that it has open.
	Device string
}

// DeviceHoldersOf returns processes sorted, and as many as are named.
func DeviceHoldersOf(processes []DeviceHolder, visible bool) DeviceHolders {
	slices.SortFunc(processes, func(a, b DeviceHolder) int {
		if (a.PodUID == "") != (b.PodUID == "") {
			return cmp.Compare(len(a.PodUID), len(b.PodUID))
		}
		return cmp.Compare(a.PID, b.PID)
	})
	named := min(len(processes), MaxDeviceHolders)
	return DeviceHolders{Visible: visible, Processes: processes[:named], More: len(processes) - named}
}

// maxMessage is the maximum size of a message in a status, in bytes.
const maxMessage = 1024

// Short truncates a message that is too long for a status.
func Short(message string) string {
	if len(message) <= maxMessage {
		return message
	}
	cut := maxMessage - len("…")
	for cut > 0 && message[cut]&0xC0 == 0x80 { // not inside a character
		cut--
	}
	return message[:cut] + "…"
}
