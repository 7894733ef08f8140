package hostagent

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
)

// Errors of Execute. They say that nothing was done, and why.
var (
	// ErrInvalid: the operation is not well formed.
	ErrInvalid = errors.New("invalid operation")
	// ErrBusy: the same task, or another restart, is being executed.
	ErrBusy = errors.New("busy")
	// ErrConflict: the operation id was used for something else before.
	ErrConflict = errors.New("the operation id was used for something else")
	// ErrLost: the record of this restart cannot be read any more, so it is not
	// known whether its host step was done. Only a new operation id can go on.
	ErrLost = errors.New("the record of this operation is lost")
	// ErrNotRecorded: the state directory could not be written, for example
	// because the disk is full. No host step is started that is not recorded.
	ErrNotRecorded = errors.New("could not record it in the state directory")
)

// ErrWithdrawn is the cause of the end of a context that tells Execute that a pull is
// not asked for any more: it is recorded as Failed, instead of to be gone on with.
var ErrWithdrawn = errors.New("not asked for any more")

// Engine is a container engine.
type Engine string

// Engines; the zero value is Auto (contract decision D30).
const (
	Auto       Engine = "auto"
	Docker     Engine = "docker"
	Containerd Engine = "containerd"
)

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

// ended reports whether an attempt is over in this state.
func ended(s State) bool { return s == Done || s == Failed }

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

// Operation asks for one task on this node. Exactly one of the parameters is set.
type Operation struct {
	// ID is the operation id of the NodeUpgrade. A restart that was begun is never
	// begun again under the same ID and Task: who wants another one takes a new ID.
	ID string
	// Task tells the tasks of an operation apart, as target_action
	// (runtime_restart-runtime); see upgradeplan.Task.
	Task string
	// Attempt of the asker. It is echoed in the Result, and means nothing here.
	Attempt int
	// Since is when the operation began, by the clock of who asks; zero: not known. It is
	// echoed in the Result of the first attempt, and means nothing here.
	Since time.Time

	Prepull        *Prepull
	RestartRuntime *RestartRuntime
	Verify         *Verify
}

// Prepull asks for images on this node, before the node is disturbed.
type Prepull struct {
	// Images as they are written in the pod; none is done at once.
	Images []string
	// Secrets are the pull secrets of the pod and of its service account, of types
	// kubernetes.io/dockerconfigjson and dockercfg. They are never recorded.
	Secrets []corev1.Secret
	// Note is said in the message of the result: what is wrong with the secrets.
	Note string
	// Engine is Auto when empty.
	Engine Engine
	// Timeout for all the images; 15 minutes when zero.
	Timeout time.Duration
}

// RestartRuntime asks that the running daemon have a default runtime.
type RestartRuntime struct {
	// DefaultRuntime is the wanted one: "enflame".
	DefaultRuntime string
	// Allowed is --restart-runtime (the seeds' --restart-docker, contract decision
	// D30): false leaves a restart that is needed to the administrator.
	Allowed bool
	// Engine is Auto when empty.
	Engine Engine
	// Timeout from the request to the daemon being back; 5 minutes when zero.
	Timeout time.Duration
}

// Verify asks for the facts of this node.
type Verify struct {
	// Engine is Auto when empty.
	Engine Engine
}

// Result is what became of a task, as it is recorded.
type Result struct {
	ID   string `json:"id"`
	Task string `json:"task"`
	// State, with a reason from the closed list and a message for people.
	State   State  `json:"state"`
	Reason  Reason `json:"reason"`
	Message string `json:"message,omitempty"`
	// Attempt is that of the last Operation that was answered.
	Attempt int `json:"attempt,omitempty"`
	// Since is that of the first Operation.
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

const (
	defaultPullTimeout    = 15 * time.Minute
	defaultRestartTimeout = 5 * time.Minute
)

var (
	idPattern      = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,61}[A-Za-z0-9])?$`)
	taskPattern    = regexp.MustCompile(`^[A-Za-z0-9.-]{1,63}_[A-Za-z0-9.-]{1,63}$`)
	runtimePattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,63}$`)
)

// Validate returns an error that wraps ErrInvalid and says what is wrong.
func (o Operation) Validate() error {
	set := 0
	for _, given := range []bool{o.Prepull != nil, o.RestartRuntime != nil, o.Verify != nil} {
		if given {
			set++
		}
	}
	switch {
	case !idPattern.MatchString(o.ID):
		return fmt.Errorf("%w: id %.80q is not 1 to 63 letters, digits, '-' and '.'", ErrInvalid, o.ID)
	case !taskPattern.MatchString(o.Task):
		return fmt.Errorf("%w: task %.80q is not of the form target_action", ErrInvalid, o.Task)
	case set != 1:
		return fmt.Errorf("%w: %d parameters are given, exactly one is needed", ErrInvalid, set)
	case o.engine() != Auto && o.engine() != Docker && o.engine() != Containerd:
		return fmt.Errorf("%w: engine %.80q is none of auto, docker, containerd", ErrInvalid, o.engine())
	case o.RestartRuntime != nil && !runtimePattern.MatchString(o.RestartRuntime.DefaultRuntime):
		return fmt.Errorf("%w: %.80q is not the name of a runtime", ErrInvalid, o.RestartRuntime.DefaultRuntime)
	case o.timeout() <= 0:
		return fmt.Errorf("%w: timeout %s is not positive", ErrInvalid, o.timeout())
	}
	if o.Prepull != nil {
		for _, image := range o.Prepull.Images {
			if _, err := name.ParseReference(image); err != nil {
				return fmt.Errorf("%w: image: %w", ErrInvalid, err)
			}
		}
	}
	return nil
}

func (o Operation) engine() Engine {
	engine := Auto
	switch {
	case o.Prepull != nil:
		engine = o.Prepull.Engine
	case o.RestartRuntime != nil:
		engine = o.RestartRuntime.Engine
	case o.Verify != nil:
		engine = o.Verify.Engine
	}
	if engine == "" {
		return Auto
	}
	return engine
}

// timeout of the task, with the default filled in.
func (o Operation) timeout() time.Duration {
	switch {
	case o.Prepull != nil && o.Prepull.Timeout != 0:
		return o.Prepull.Timeout
	case o.RestartRuntime != nil && o.RestartRuntime.Timeout != 0:
		return o.RestartRuntime.Timeout
	case o.Prepull != nil:
		return defaultPullTimeout
	}
	return defaultRestartTimeout
}

// subject is what must be the same whenever an operation id is used again.
func (o Operation) subject() string {
	switch {
	case o.Prepull != nil:
		return "images " + strings.Join(o.Prepull.Images, " ")
	case o.RestartRuntime != nil:
		return "default runtime " + o.RestartRuntime.DefaultRuntime + ", engine " + string(o.engine())
	}
	return "verify"
}
