package task

import "time"

// State of a task.
type State string

// States of a task. Done and Failed end an attempt.
const (
	// Running: not known to have ended; Execute goes on with it, or looks again.
	Running State = "Running"
	// Waiting: a person has to act; Execute looks again.
	Waiting State = "Waiting"
	Done    State = "Done"
	Failed  State = "Failed"
)

// Final reports whether an attempt is over in this state.
func (s State) Final() bool { return s == Done || s == Failed }

// Reason of a state: a closed list.
type Reason string

// Reasons.
const (
	// ReasonInProgress: the record that it was begun is the last one there is.
	ReasonInProgress Reason = "InProgress"
	// ReasonAlreadyDefault: the running daemon has the wanted default runtime, so
	// nothing is restarted (contract statement 86).
	ReasonAlreadyDefault Reason = "AlreadyDefault"
	// ReasonRestarted: the daemon is another instance than before, and has the
	// wanted default runtime.
	ReasonRestarted Reason = "Restarted"
	// ReasonLeftToAdministrator: a restart is needed and not allowed.
	ReasonLeftToAdministrator Reason = "LeftToAdministrator"
	// ReasonNoEngine: neither docker nor containerd answers: a pull fails, a restart
	// waits for one.
	ReasonNoEngine Reason = "NoEngine"
	// ReasonInstanceUnknown: which process the daemon is cannot be told, so that
	// a restart could not be told from none.
	ReasonInstanceUnknown Reason = "InstanceUnknown"
	// ReasonNotConfigured: the configuration on disk does not have the wanted
	// default runtime, so a restart would change nothing. At first it is waited for.
	ReasonNotConfigured Reason = "NotConfigured"
	// ReasonNoServiceManager: there is neither systemd nor a restart command.
	ReasonNoServiceManager Reason = "NoServiceManager"
	// ReasonRestartFailed: the service manager or the command failed.
	ReasonRestartFailed Reason = "RestartFailed"
	// ReasonWrongDefault: restarted, and the default runtime is another one.
	ReasonWrongDefault Reason = "WrongDefault"
	// ReasonNotBack: the daemon, or the agent's own container, was not there by
	// the deadline.
	ReasonNotBack Reason = "NotBack"
	// ReasonNotRestarted: no restart was seen by the deadline.
	ReasonNotRestarted Reason = "NotRestarted"

	// ReasonPresent: the images are on the node already.
	ReasonPresent Reason = "Present"
	// ReasonPulled: an image was pulled, and now all are there.
	ReasonPulled Reason = "Pulled"
	// ReasonBadPullSecret: a pull secret cannot be read.
	ReasonBadPullSecret Reason = "BadPullSecret"
	// ReasonPullFailed: the registry or the engine refused.
	ReasonPullFailed Reason = "PullFailed"
	// ReasonPullTimedOut: the pull did not end in time.
	ReasonPullTimedOut Reason = "PullTimedOut"
	// ReasonWithdrawn: it was ended because nobody asked for it any more.
	ReasonWithdrawn Reason = "Withdrawn"

	// ReasonRead: the facts were read. What they mean is for the asker to say.
	ReasonRead Reason = "Read"
)

// Result is what became of a task, as it is recorded.
type Result struct {
	ID   string `json:"id"`
	Task string `json:"task"`
	// State, with a reason from the closed list and a message for people.
	State   State  `json:"state"`
	Reason  Reason `json:"reason"`
	Message string `json:"message,omitempty"`
	// Attempt is that of the last Request that was executed.
	Attempt int `json:"attempt,omitempty"`
	// Since is that of the first Request.
	Since time.Time `json:"since,omitzero"`
	// Attempts counts the times it was begun; for a restart, the times the service
	// manager was asked: more than one only when what was asked had no effect.
	Attempts int `json:"attempts,omitempty"`
	// Started is the time of the first attempt, Finished that of the end of the
	// last one; zero while it runs or waits. UTC.
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished,omitzero"`
	Facts    Facts     `json:"facts"`
}

// Facts are what a task saw; nil: it did not look, or could not see it.
type Facts struct {
	Runtime *RuntimeFacts `json:"runtime,omitempty"`
	Images  []ImageFacts  `json:"images,omitempty"`
	Host    *HostFacts    `json:"host,omitempty"`
}

// ImageFacts are what is known of an image on this node.
type ImageFacts struct {
	// Name as it was asked for.
	Name string `json:"name"`
	// ID of the image in the engine.
	ID string `json:"id"`
}

// RuntimeFacts are what is known of the container engine that runs the pods.
type RuntimeFacts struct {
	Engine  Engine `json:"engine"`
	Version string `json:"version,omitempty"`
	// Default is the default runtime of the running daemon: what it answers, not
	// what its configuration says.
	Default string `json:"default"`
	// RestartStopsContainers: restarting the engine stops the containers on it.
	// docker without live-restore does; containerd does not.
	RestartStopsContainers bool `json:"restartStopsContainers"`
	// Instance identifies the running process of the daemon, over reboots too. ""
	// when it cannot be told.
	Instance string `json:"instance,omitempty"`
}

// HostFacts are what the files of the node say. What could not be read is empty
// and explained in Missing.
type HostFacts struct {
	// DriverVersion is what the loaded driver says of itself
	// (/sys/module/enflame/version); "" when none is loaded.
	DriverVersion string `json:"driverVersion,omitempty"`
	// Devices is the number of cards, /dev/gcu0 and on; nil when they could not be counted.
	Devices *int `json:"devices,omitempty"`
	// BootID changes with each boot of the node.
	BootID string `json:"bootID,omitempty"`
	// FreeDiskBytes where the engine keeps images; nil when unknown.
	FreeDiskBytes *int64 `json:"freeDiskBytes,omitempty"`
	// Missing explains what could not be read, sorted by what it is about.
	Missing []string `json:"missing,omitempty"`
}

// maxMessage bounds what a status has to carry, in bytes.
const maxMessage = 1024

// Short cuts a message that is too long for a status.
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
