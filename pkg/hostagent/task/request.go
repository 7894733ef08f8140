// Package task defines the tasks on a node's host: the requests, their results, and the
// journal record of a task.
package task

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
)

// Errors of executing a request.
var (
	// ErrInvalid: the request is malformed.
	ErrInvalid = errors.New("invalid operation")
	// ErrBusy: the same task, or another restart, is being executed.
	ErrBusy = errors.New("busy")
	// ErrConflict: the operation id was used for another request before.
	ErrConflict = errors.New("the operation id was used for something else")
	// ErrLost: the record of this restart is unreadable, so it is unknown whether the restart
	// was carried out. Only a new operation id can continue.
	ErrLost = errors.New("the record of this operation is lost")
	// ErrNotRecorded: the state directory is not writable, for example because the disk is
	// full. Nothing begins unrecorded.
	ErrNotRecorded = errors.New("could not record it in the state directory")
)

// ErrNotRequested is the cancel cause of a pull that is no longer requested: the pull is
// recorded as Failed, not to be continued.
var ErrNotRequested = errors.New("no longer requested")

// Engine is a container engine.
type Engine string

// Engines; the zero value is Auto (contract decision D30).
const (
	Auto       Engine = "auto"
	Docker     Engine = "docker"
	Containerd Engine = "containerd"
)

// Request is the request for one task of an operation on this node. Exactly one of the
// parameters is set.
type Request struct {
	// ID is the operation id of the NodeUpgrade. A restart that was begun is never begun
	// again under the same ID and Task: another restart needs a new ID.
	ID string
	// Task identifies the task within its operation, as target_action
	// (runtime_restart-runtime); see upgradeplan.Task.
	Task string
	// Attempt is the caller's. It is only echoed in the Result.
	Attempt int
	// Since is the start of the operation, by the caller's clock; zero: unknown. It is only
	// echoed in the Result, from the first attempt.
	Since time.Time

	// Engine is Auto when empty.
	Engine Engine

	Prepull        *Prepull
	RestartRuntime *RestartRuntime
	// Verify requests the facts of this node.
	Verify bool
}

// Prepull requests images on this node, before the node is disturbed.
type Prepull struct {
	// Images as in the pod spec. An empty list is done at once.
	Images []string
	// Secrets are the pull secrets of the pod, of types
	// kubernetes.io/dockerconfigjson and dockercfg. They are never recorded.
	Secrets []corev1.Secret
	// Note is added to the message of the result: problems with the secrets.
	Note string
	// LeaveToKubelet is whether an image that cannot be pulled is done with: a secret of the pod is
	// one that this agent may not read, and the kubelet pulls the image when the pod starts.
	LeaveToKubelet bool
	// LeaveUnauthorized is whether an image is done with that the registry does not give to this agent: the kubelet may
	// have the secrets of a ServiceAccount, or credentials of the node.
	LeaveUnauthorized bool
	// Timeout for all the images; 15 minutes when zero.
	Timeout time.Duration
}

// RestartRuntime requests a default runtime of the running daemon.
type RestartRuntime struct {
	// DefaultRuntime is the wanted one, such as "enflame".
	DefaultRuntime string
	// Allowed is --restart-runtime (the seeds' --restart-docker, contract decision D30):
	// false leaves a necessary restart to the administrator.
	Allowed bool
	// Timeout from the request until the daemon is back; 5 minutes when zero.
	Timeout time.Duration
	// Observe only: the operation has ended, and a restart that has begun is not attempted again.
	Observe bool
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
func (r Request) Validate() error {
	set := 0
	for _, given := range []bool{r.Prepull != nil, r.RestartRuntime != nil, r.Verify} {
		if given {
			set++
		}
	}
	switch {
	case !idPattern.MatchString(r.ID):
		return fmt.Errorf("%w: id %.80q is not 1 to 63 letters, digits, '-' and '.'", ErrInvalid, r.ID)
	case !taskPattern.MatchString(r.Task):
		return fmt.Errorf("%w: task %.80q is not of the form target_action", ErrInvalid, r.Task)
	case set != 1:
		return fmt.Errorf("%w: %d parameters are given, exactly one is needed", ErrInvalid, set)
	case !slices.Contains([]Engine{"", Auto, Docker, Containerd}, r.Engine):
		return fmt.Errorf("%w: engine %.80q is none of auto, docker, containerd", ErrInvalid, r.Engine)
	case r.RestartRuntime != nil && !runtimePattern.MatchString(r.RestartRuntime.DefaultRuntime):
		return fmt.Errorf("%w: %.80q is not the name of a runtime", ErrInvalid, r.RestartRuntime.DefaultRuntime)
	case r.Timeout() <= 0:
		return fmt.Errorf("%w: timeout %s is not positive", ErrInvalid, r.Timeout())
	}
	if r.Prepull != nil {
		for _, image := range r.Prepull.Images {
			if _, err := name.ParseReference(image); err != nil {
				return fmt.Errorf("%w: image: %w", ErrInvalid, err)
			}
		}
	}
	return nil
}

// Timeout returns the timeout of the task, with the default filled in.
func (r Request) Timeout() time.Duration {
	switch {
	case r.Prepull != nil && r.Prepull.Timeout != 0:
		return r.Prepull.Timeout
	case r.RestartRuntime != nil && r.RestartRuntime.Timeout != 0:
		return r.RestartRuntime.Timeout
	case r.Prepull != nil:
		return defaultPullTimeout
	}
	return defaultRestartTimeout
}

// engineSubject is what comes before the engine in subjects of restarts that earlier versions recorded.
const engineSubject = ", engine "

// restartSubject is what comes before the default runtime in the subject of a restart.
const restartSubject = "default runtime "

// Subject returns the part of the request that must be the same each time an operation id is
// used. The engine is none of it: an administrator may name it while the task waits for one, and a restart that has begun
// keeps its engine.
func (r Request) Subject() string {
	switch {
	case r.Prepull != nil:
		return "images " + strings.Join(r.Prepull.Images, " ")
	case r.RestartRuntime != nil:
		return restartSubject + r.RestartRuntime.DefaultRuntime
	}
	return "verify"
}
