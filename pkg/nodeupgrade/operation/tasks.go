package operation

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

const (
	// drainInterval is between two passes of a drain.
	drainInterval = drain.RetryInterval
	// pullInterval is before the second pull of an image; it doubles.
	pullInterval = 30 * time.Second
	// offerGrace is how long a node that has cards and offers none is waited for before
	// it is taken for one that is broken: after a boot the plugin needs a moment.
	offerGrace = 30 * time.Second
)

// holds is the predicate of each task: what the facts must show for it to be done.
func (s *step) holds(t upgradeplan.Task, rec *topsv1.OperationTask) bool {
	switch t.Action {
	case upgradeplan.ActionPrecheck:
		return s.op.Before != nil && (s.disturbed() || s.nodeLacks() == "")
	case upgradeplan.ActionPrepull:
		return s.atTarget(t) || done(s.answered(t, rec))
	case upgradeplan.ActionCordon:
		return s.cordoned()
	case upgradeplan.ActionEvict:
		return s.cordoned() && s.f.Drained.Empty
	case upgradeplan.ActionReplace:
		return s.replaced(t, rec)
	case upgradeplan.ActionRestartRuntime:
		return s.runtimeLacks() == "" || done(s.f.Host.Result(s.op.ID, t.String()))
	case upgradeplan.ActionVerify:
		return s.evidenceLacks(t, rec) == ""
	case upgradeplan.ActionSoak:
		_, text := s.soaking(rec)
		return text == ""
	case upgradeplan.ActionUncordon:
		return true // giving the node back is the end of every operation: see release
	}
	return false
}

// attempt works on a task that is current.
func (s *step) attempt(t upgradeplan.Task, rec *topsv1.OperationTask) verdict {
	switch t.Action {
	case upgradeplan.ActionPrecheck:
		return s.precheck(rec)
	case upgradeplan.ActionPrepull:
		return s.prepull(t, rec)
	case upgradeplan.ActionCordon:
		return s.cordon()
	case upgradeplan.ActionEvict:
		return s.evict()
	case upgradeplan.ActionReplace:
		return s.replace(t, rec)
	case upgradeplan.ActionRestartRuntime:
		return s.restart(t)
	case upgradeplan.ActionVerify:
		s.op.Touched = true // what is verified has its wanted revision, whoever put it there
		return waiting(ReasonInProgress, "%s", s.evidenceLacks(t, rec))
	}
	at, text := s.soaking(rec)
	if !at.IsZero() {
		s.at(at)
	}
	return waiting(ReasonInProgress, "%s", text)
}

// disturbed reports whether more was begun than to prepare the node.
func (s *step) disturbed() bool {
	return s.begun(func(t upgradeplan.Task) bool { return !prepares(t) }, false)
}

// nodeLacks says what has to be there before the node is touched, "" for nothing.
func (s *step) nodeLacks() string {
	host := s.f.Host
	var lacks []string
	lack := func(is bool, format string, args ...any) {
		if is {
			lacks = append(lacks, fmt.Sprintf(format, args...))
		}
	}
	lack(s.silent(), "the node agent is silent")
	lack(s.f.Node.OtherUpgrader != "", "%s works on the node", s.f.Node.OtherUpgrader)
	if host != nil {
		need := s.wanted.MinFreeDiskBytes
		lack(need > 0 && host.FreeDiskBytes == nil, "the free disk space is not known")
		lack(host.FreeDiskBytes != nil && *host.FreeDiskBytes < need, "the disk has less than %d bytes free", need)
		lack(s.restarts() && host.Runtime == nil, "the container runtime is not known")
		lack(s.has(upgradeplan.ActionVerify, upgradeplan.TargetDriver) && host.Devices == nil, "the cards could not be counted")
	}
	return strings.Join(lacks, "; ")
}

// precheck records what the node shows once it lacks nothing. What it offers then is
// what it has to offer afterwards, so a node that has just booted is given time.
func (s *step) precheck(rec *topsv1.OperationTask) verdict {
	if lacks := s.nodeLacks(); lacks != "" {
		return waiting(ReasonPrecheckFailed, "%s", lacks)
	}
	host := s.f.Host
	if until := rec.StartTime.Add(min(offerGrace, s.limits.precheck/2)); s.offersNone() && s.f.Now.Before(until) {
		s.at(until)
		return waiting(ReasonInProgress, "the node has cards and offers none of them yet")
	}
	s.op.Before = &topsv1.NodeBefore{DriverVersion: host.DriverVersion, BootID: host.BootID, Allocatable: maps.Clone(s.f.Node.Allocatable)}
	if host.Devices != nil {
		s.op.Before.Devices = *host.Devices
	}
	s.op.DrainAll = s.restarts() && StopsContainers(host.Runtime, s.wanted.DefaultRuntime)
	s.op.ForeignCordon = s.f.Node.Cordon.Unschedulable && s.f.Node.Cordon.Mark == ""
	s.soon()
	return waiting(ReasonInProgress, "the node is as it should be")
}

// StopsContainers reports whether a container runtime that is to have a default runtime,
// "" for enflame, is restarted for it, and stops the containers of the node with that.
// An engine that is not known does not.
func StopsContainers(engine *topsv1.RuntimeReport, wanted string) bool {
	if engine == nil || engine.Default == cmp.Or(wanted, defaultRuntime) {
		return false
	}
	return engine.RestartStopsContainers == nil || *engine.RestartStopsContainers
}

// offersNone reports whether the node has cards, and could offer them, and does not.
func (s *step) offersNone() bool {
	cards := s.f.Host != nil && s.f.Host.Devices != nil && *s.f.Host.Devices > 0
	for _, offered := range s.f.Node.Allocatable {
		if offered > 0 {
			return false
		}
	}
	return cards && len(s.f.Node.Allocatable) > 0 && s.has(upgradeplan.ActionVerify, upgradeplan.TargetAllocatable)
}

func (s *step) restarts() bool {
	return s.has(upgradeplan.ActionRestartRuntime, upgradeplan.TargetNode)
}

// silent reports whether the agent has not been heard of lately.
func (s *step) silent() bool {
	return s.f.Host == nil || !s.f.Now.Before(s.f.Host.Time.Add(s.limits.silence))
}

// answered is the agent's result of the present attempt of a task, nil when it has none.
func (s *step) answered(t upgradeplan.Task, rec *topsv1.OperationTask) *topsv1.HostTaskResult {
	result := s.f.Host.Result(s.op.ID, t.String())
	if result == nil || rec.Attempts == 0 || result.Attempt < rec.Attempts {
		return nil
	}
	return result
}

func done(result *topsv1.HostTaskResult) bool {
	return result != nil && result.State == topsv1.HostTaskDone
}

// prepull waits for the agent. A pull that failed is asked for again, at growing
// intervals, until the deadline.
func (s *step) prepull(t upgradeplan.Task, rec *topsv1.OperationTask) verdict {
	result := s.answered(t, rec)
	if result == nil || result.State != topsv1.HostTaskFailed {
		return s.hostWaits(result)
	}
	next := rec.StartTime.Add(pullInterval << min(rec.Attempts-1, 10))
	if !s.f.Now.Before(next) {
		rec.Attempts++
	} else {
		s.at(next)
	}
	return waiting(ReasonPrepullFailed, "%s", result.Message)
}

// hostWaits words what the agent is doing.
func (s *step) hostWaits(result *topsv1.HostTaskResult) verdict {
	switch {
	case result != nil && result.State == topsv1.HostTaskWaiting:
		return waiting(ReasonLeftToAdministrator, "%s", result.Message)
	case s.silent():
		return waiting(ReasonInProgress, "the node agent is silent")
	case result != nil && result.Message != "":
		return waiting(ReasonInProgress, "%s", result.Message)
	}
	return waiting(ReasonInProgress, "in progress on the node agent")
}

// cordoned reports whether the node takes no new pods, by us or by somebody else.
func (s *step) cordoned() bool {
	change := drain.DecideCordon(s.f.Node.Cordon, s.op.ID)
	return change.Cordoned && !change.Needed() && change.Reason != drain.ReasonHeldByOther
}

func (s *step) cordon() verdict {
	change := drain.DecideCordon(s.f.Node.Cordon, s.op.ID)
	if change.Needed() {
		s.onNode(Effect{Kind: Cordon, Change: change})
		return waiting(ReasonInProgress, "%s", change.Message)
	}
	return waiting(ReasonCordonHeld, "%s", change.Message)
}

func (s *step) evict() verdict {
	s.effects = append(s.effects, Effect{Kind: Evict, Operation: s.op.ID, All: s.op.DrainAll})
	s.at(s.f.Now.Add(drainInterval))
	if s.f.Drained.Stuck {
		return waiting(ReasonDrainBlocked, "%s", s.f.Drained.Message)
	}
	return waiting(ReasonInProgress, "%s", s.f.Drained.Message)
}

// onNode adds an effect on the Node object; a decision has one, because the
// second would find another resourceVersion, and none without one to name.
func (s *step) onNode(e Effect) {
	if s.f.Node.Cordon.ResourceVersion == "" {
		return
	}
	if slices.ContainsFunc(s.effects, func(o Effect) bool { return o.NodeVersion != "" }) {
		return
	}
	if e.Operation == "" {
		e.Operation = s.op.ID
	}
	e.NodeUID, e.NodeVersion = s.f.Node.UID, s.f.Node.Cordon.ResourceVersion
	s.effects = append(s.effects, e)
}

// restart waits for the agent, which has been asked by the state of the task.
func (s *step) restart(t upgradeplan.Task) verdict {
	s.op.Touched = true
	result := s.f.Host.Result(s.op.ID, t.String())
	if result != nil && result.State == topsv1.HostTaskFailed {
		return verdict{phase: topsv1.OperationFailed, reason: ReasonRestartFailed, text: result.Message}
	}
	return s.hostWaits(result)
}

func (s *step) runtimeWanted() string {
	return cmp.Or(s.wanted.DefaultRuntime, defaultRuntime)
}

// defaultRuntime is what a container engine is to use when an operation does not say.
const defaultRuntime = "enflame"

// runtimeLacks says what is wrong with the default runtime, "" nothing.
func (s *step) runtimeLacks() string {
	switch {
	case s.f.Host == nil || s.f.Host.Runtime == nil:
		return "the node agent has not told the default runtime"
	case s.f.Host.Runtime.Default != s.runtimeWanted():
		return fmt.Sprintf("the default runtime is %q, not %q", s.f.Host.Runtime.Default, s.runtimeWanted())
	}
	return ""
}

// evidenceLacks says what a verification lacks, "" nothing. What the agent shows
// counts once it was read for this task, which is after the tasks before it.
func (s *step) evidenceLacks(t upgradeplan.Task, rec *topsv1.OperationTask) string {
	if t.Target == upgradeplan.TargetAllocatable {
		return s.allocatableLacks()
	}
	if result := s.answered(t, rec); !done(result) {
		if result != nil && result.Message != "" {
			return result.Message // what keeps the agent from it
		}
		return "the node agent has not looked since"
	}
	if t.Target == upgradeplan.TargetRuntime {
		return s.runtimeLacks()
	}
	return s.driverLacks()
}

func (s *step) driverLacks() string {
	host, before := s.f.Host, s.op.Before
	need := int32(1)
	if before != nil && before.DriverVersion != "" {
		need = before.Devices // what was broken before is not the fault of the new version
	}
	switch {
	case host.DriverVersion == "":
		return "no driver is loaded"
	case s.wanted.DriverVersion != "" && host.DriverVersion != s.wanted.DriverVersion:
		return fmt.Sprintf("driver %s is loaded, not %s", host.DriverVersion, s.wanted.DriverVersion)
	case host.Devices == nil:
		return "the cards could not be counted"
	case *host.Devices < need:
		return fmt.Sprintf("%d cards are there, %d are needed", *host.Devices, need)
	}
	return ""
}

func (s *step) allocatableLacks() string {
	if s.op.Before == nil {
		return ""
	}
	var lacks []string
	for name, before := range s.op.Before.Allocatable {
		if now := s.f.Node.Allocatable[name]; now < before {
			lacks = append(lacks, fmt.Sprintf("%d of %s are allocatable, %d were before", now, name, before))
		}
	}
	slices.Sort(lacks)
	return strings.Join(lacks, "; ")
}

// soaking says when the soak ends if nothing happens, and what it waits for; ""
// when it is over.
func (s *step) soaking(rec *topsv1.OperationTask) (until time.Time, text string) {
	if rec.StartTime == nil {
		return time.Time{}, "it has not begun"
	}
	from := rec.StartTime.Time
	for _, target := range s.wanted.Targets {
		m := s.member(target.Component)
		if m == nil || m.Pod == nil || m.Pod.Terminating || !m.Pod.Available {
			return time.Time{}, fmt.Sprintf("the pod of %s is not available", target.Component)
		}
		if m.Pod.Since.After(from) {
			from = m.Pod.Since
		}
	}
	until = from.Add(s.limits.soak)
	if s.f.Now.Before(until) {
		return until, fmt.Sprintf("all pods have to stay available for %s", s.limits.soak)
	}
	return until, ""
}
