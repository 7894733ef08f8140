package report

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
)

// Reasons of a task that are not reasons of a verdict.
const (
	reasonReplaced      = "Replaced"
	reasonNotControlled = "NotControlled"
	reasonNotEligible   = "NotEligible"
	reasonDaemonSetGone = "DaemonSetGone"
	// reasonInvalidRequest: the requested pod does not belong to the named DaemonSet, or is on another node.
	reasonInvalidRequest = "InvalidRequest"
	// reasonRevisionChanged: the request is for a revision that is no longer the newest.
	reasonRevisionChanged = topsv1.ReasonRevisionChanged
)

// Tasks returns the tasks that a NodeUpgrade should have, and reports whether they differ from
// its current tasks. It keeps the tasks of other groups' requests, and drops tasks whose request is
// gone.
func (a *RequestResults) Tasks(upgrade *topsv1.NodeUpgrade) (tasks []topsv1.UpgradeTask, changed bool) {
	return answers(upgrade, func(request *topsv1.UpgradeRequest, shown *topsv1.UpgradeTask) (topsv1.UpgradeTask, bool) {
		if member := a.memberOf(request); member >= 0 && request.Rollback {
			return a.pinRequestTask(upgrade.Name, observed.PinRequestFrom(request), shown)
		} else if member >= 0 {
			return a.task(upgrade.Name, request, member, shown), true
		}
		if a.replacesOwnerOf(request) {
			return orphanTask(upgrade.Name, request, shown, wholeSecond(a.Input.Now)), true
		}
		return topsv1.UpgradeTask{}, false
	}, a.pinRequestTask)
}

// answers calls answer for every request without a final answer. answer returns false for a
// request of another group, whose task is kept. answerPinRequest does the same for a pin request.
func answers(upgrade *topsv1.NodeUpgrade, answer func(*topsv1.UpgradeRequest, *topsv1.UpgradeTask) (topsv1.UpgradeTask, bool),
	answerPinRequest func(string, *observed.PinRequest, *topsv1.UpgradeTask) (topsv1.UpgradeTask, bool)) (tasks []topsv1.UpgradeTask, changed bool) {
	for i := range upgrade.Status.Requests {
		request := &upgrade.Status.Requests[i]
		shown := taskOf(upgrade.Status.Tasks, request.ID)
		if shown == nil || !shown.State.Final() {
			if task, ours := answer(request, shown); ours {
				tasks = append(tasks, task)
				continue
			}
		}
		if shown != nil {
			tasks = append(tasks, *shown)
		}
	}
	if ask := observed.PinRequestOf(upgrade); ask != nil {
		shown := taskOf(upgrade.Status.Tasks, ask.ID)
		if task, ours := answerPinRequest(upgrade.Name, ask, shown); ours && (shown == nil || !shown.State.Final()) {
			tasks = append(tasks, task)
		} else if shown != nil {
			tasks = append(tasks, *shown)
		}
	}
	return tasks, !equality.Semantic.DeepEqual(tasks, upgrade.Status.Tasks)
}

// taskOf returns the task that answers a request, nil if there is none.
func taskOf(tasks []topsv1.UpgradeTask, request string) *topsv1.UpgradeTask {
	for i := range tasks {
		if tasks[i].RequestID == request {
			return &tasks[i]
		}
	}
	return nil
}

// memberOf returns the index of the member that a request is for, -1 if it is for a DaemonSet of
// another group.
func (a *RequestResults) memberOf(request *topsv1.UpgradeRequest) int {
	return slices.IndexFunc(a.State.Members, func(m observed.Member) bool { return m.DaemonSet.UID == request.DaemonSet.UID })
}

// replacesOwnerOf reports whether a member has the name of the DaemonSet that a request is for,
// but another UID.
func (a *RequestResults) replacesOwnerOf(request *topsv1.UpgradeRequest) bool {
	return slices.ContainsFunc(a.State.Members, func(m observed.Member) bool {
		return m.Key() == request.DaemonSet.Namespace+"/"+request.DaemonSet.Name && m.DaemonSet.UID != request.DaemonSet.UID
	})
}

func (a *RequestResults) task(node string, request *topsv1.UpgradeRequest, member int, shown *topsv1.UpgradeTask) topsv1.UpgradeTask {
	task := topsv1.UpgradeTask{
		RequestID: request.ID,
		Name:      taskName(node, a.State.Members[member].DaemonSet.Name),
	}
	if shown != nil {
		task.StartTime = shown.StartTime
	}
	task.State, task.Reason, task.Message = a.state(node, request, member, shown)
	now := wholeSecond(a.Input.Now)
	if task.State != topsv1.TaskWaiting && task.StartTime == nil {
		task.StartTime = &now
	}
	if task.State.Final() {
		task.EndTime = &now
	}
	return task
}

// state returns the progress of one request. It is done when another pod has replaced the
// requested one and is available, or when the requested pod is at the target and need not be verified.
func (a *RequestResults) state(node string, request *topsv1.UpgradeRequest, member int, shown *topsv1.UpgradeTask) (state topsv1.TaskState, reason, message string) {
	if !isValidName(request.Pod) {
		return topsv1.TaskFailed, reasonInvalidRequest, invalidMessage(request)
	}
	if reason, message := a.refusal(node, member); reason != "" {
		return topsv1.TaskFailed, reason, message
	}
	pod := a.podOn(node, member)
	same := pod.UID == request.Pod.UID
	if state, reason, message := a.ended(node, request, member, pod); state != "" {
		return state, reason, message
	}
	verdict, _ := a.Decision.Verdict(node) // the node exists, since it has a pod of the member
	state = topsv1.TaskWaiting
	switch {
	case verdict.State == rollout.Failed && !a.requestedSince(node, request, member, shown):
		state = topsv1.TaskFailed
	case same && !pod.Terminating && a.isOvertaken(request, member, &verdict, shown):
		return topsv1.TaskFailed, reasonRevisionChanged, fmt.Sprintf("revision %s was requested, but %s is the newest now: repeat the request",
			request.Revision, a.Input.Members[member].Target)
	case verdict.State == rollout.InFlight || !same || pod.Terminating:
		state = topsv1.TaskRunning
	case request.Withdrawn:
		return topsv1.TaskWithdrawn, reasonWithdrawn, withdrawnInTime
	case verdict.Reason == rollout.ReasonAwaitingRequest && rollout.LeavesOut(a.Input, a.Fleet.Node(node), pod):
		return state, string(rollout.ReasonLeftOut), rollout.LeftOutMessage // the node waits for a request for another pod
	}
	return state, string(verdict.Reason), verdict.Message
}

// ended returns how a request ended if nothing is left to do for it, "" otherwise.
func (a *RequestResults) ended(node string, request *topsv1.UpgradeRequest, member int, pod *rollout.Pod) (state topsv1.TaskState, reason, message string) {
	switch same := pod.UID == request.Pod.UID; {
	case same && pod.Revision == a.Input.Members[member].Target && !rollout.NeedsVerification(a.Input, a.Fleet.Node(node), pod):
		return topsv1.TaskDone, string(rollout.ReasonAtTarget), fmt.Sprintf("pod %s is already at the newest revision", pod.Name)
	case !same && pod.Available && pod.Pin != "":
		return topsv1.TaskFailed, reasonUndone, fmt.Sprintf("pod %s was replaced by %s, because the node went back to revision %s", request.Pod.Name, pod.Name, pod.Pin)
	case !same && pod.Available:
		return topsv1.TaskDone, reasonReplaced, fmt.Sprintf("pod %s was replaced by %s", request.Pod.Name, pod.Name)
	}
	return "", "", ""
}

// refusal returns why requests for a member on a node are rejected, "" if they are not.
func (a *RequestResults) refusal(node string, member int) (reason, message string) {
	key := a.Input.Members[member].Key
	switch {
	case !a.Input.Upgrades() && a.Input.Blocked == nil:
		return reasonNotControlled, fmt.Sprintf("DaemonSet %s no longer has an update strategy", key)
	case a.podOn(node, member) == nil:
		return reasonNotEligible, fmt.Sprintf("DaemonSet %s no longer runs on this node", key)
	}
	return "", ""
}

// isOvertaken reports whether a request is for another revision of its DaemonSet than the newest one, and
// its node was not started for it. If it was, the task is running, or a slot names the member.
func (a *RequestResults) isOvertaken(request *topsv1.UpgradeRequest, member int, verdict *rollout.Verdict, shown *topsv1.UpgradeTask) bool {
	of := a.Input.Members[member]
	if a.Input.Settings.Strategy != daemonset.OTA || request.Withdrawn || request.Revision == "" || of.Target == "" || request.Revision == of.Target {
		return false
	}
	begun := shown != nil && shown.State == topsv1.TaskRunning ||
		slices.ContainsFunc(a.Decision.Ledger.Slots, func(s rollout.Slot) bool { return s.Node == verdict.Node && slices.Contains(s.Members, of.Key) })
	return verdict.State != rollout.InFlight || !begun
}

// requestedSince reports whether a request is newer than those known when the node failed, and starts the node again. A running
// request is not: if the node's clock is ahead, its time could be later than that of any failure.
func (a *RequestResults) requestedSince(node string, request *topsv1.UpgradeRequest, member int, shown *topsv1.UpgradeTask) bool {
	i := slices.IndexFunc(a.Decision.Ledger.Failures, func(f rollout.Failure) bool { return f.Node == node })
	runs := shown != nil && shown.State == topsv1.TaskRunning
	return i >= 0 && !runs && observed.RequestedAt(request, a.Input.Now).After(a.Decision.Ledger.Failures[i].Requested) && a.Decision.AcceptsRequest(node, member)
}

// podOn returns the pod of a member on a node, nil if the member does not run there.
func (a *RequestResults) podOn(node string, member int) *rollout.Pod {
	n := a.Fleet.Node(node)
	if n == nil {
		return nil
	}
	i := slices.IndexFunc(n.Pods, func(p rollout.Pod) bool { return p.Member == member })
	if i < 0 {
		return nil
	}
	return &n.Pods[i]
}

// OrphanTasks answers the open requests for DaemonSets that are gone. The results are those of
// RequestResults.Tasks.
func OrphanTasks(upgrade *topsv1.NodeUpgrade, gone func(topsv1.NamespacedRef) bool, now time.Time) (tasks []topsv1.UpgradeTask, changed bool) {
	return answers(upgrade, func(request *topsv1.UpgradeRequest, shown *topsv1.UpgradeTask) (topsv1.UpgradeTask, bool) {
		if !gone(request.DaemonSet) {
			return topsv1.UpgradeTask{}, false
		}
		return orphanTask(upgrade.Name, request, shown, wholeSecond(now)), true
	}, func(string, *observed.PinRequest, *topsv1.UpgradeTask) (topsv1.UpgradeTask, bool) {
		return topsv1.UpgradeTask{}, false
	})
}

func orphanTask(node string, request *topsv1.UpgradeRequest, shown *topsv1.UpgradeTask, now metav1.Time) topsv1.UpgradeTask {
	ref := request.DaemonSet
	task := topsv1.UpgradeTask{
		RequestID: request.ID, Name: taskName(node, ref.Name), State: topsv1.TaskFailed,
		Reason: reasonDaemonSetGone, Message: fmt.Sprintf("DaemonSet %s/%s, which owned pod %s, no longer exists", ref.Namespace, ref.Name, request.Pod.Name),
		StartTime: &now, EndTime: &now,
	}
	if shown != nil && shown.StartTime != nil {
		task.StartTime = shown.StartTime
	}
	return task
}

// taskName returns host_target_action.
func taskName(node, daemonSet string) string { return node + "_" + daemonSet + "_replace" }

// NewlyFinal returns the requests whose final answer in tasks is not yet in the NodeUpgrade and has to be
// confirmed first. replaced are those whose pod was replaced. byTarget are those answered because their pod
// is at the target, or because they are for another revision.
func NewlyFinal(upgrade *topsv1.NodeUpgrade, tasks []topsv1.UpgradeTask) (replaced, byTarget []*topsv1.UpgradeRequest) {
	for i := range upgrade.Status.Requests {
		request := &upgrade.Status.Requests[i]
		task, shown := taskOf(tasks, request.ID), taskOf(upgrade.Status.Tasks, request.ID)
		switch {
		case task == nil || task.State != topsv1.TaskDone && task.Reason != reasonRevisionChanged || (shown != nil && shown.State.Final()):
		case task.Reason == reasonReplaced:
			replaced = append(replaced, request)
		default:
			byTarget = append(byTarget, request)
		}
	}
	return replaced, byTarget
}

// NewlyStarted returns, for each request whose task has a start time in tasks and none in the NodeUpgrade,
// how long the node waited for its slot, at least zero. The time of the request is by the node's clock. A request that got its
// final answer without a slot, such as one that was withdrawn, is not among them.
func NewlyStarted(upgrade *topsv1.NodeUpgrade, tasks []topsv1.UpgradeTask) (waited []time.Duration) {
	for i := range upgrade.Status.Requests {
		request := &upgrade.Status.Requests[i]
		task, shown := taskOf(tasks, request.ID), taskOf(upgrade.Status.Tasks, request.ID)
		if task != nil && task.StartTime != nil && (shown == nil || shown.StartTime == nil) && hadSlot(task) {
			waited = append(waited, max(0, task.StartTime.Sub(request.RequestTime.Time)))
		}
	}
	return waited
}

// hadSlot reports whether the node of a task that is not waiting was given a slot for it.
func hadSlot(task *topsv1.UpgradeTask) bool {
	return !task.State.Final() || task.Reason == reasonReplaced || task.Reason == reasonUndone
}

// RejectInvalid replaces the answer to a request in tasks by a final rejection: the requested pod does not belong
// to the DaemonSet of the request, or is not on this node.
func RejectInvalid(tasks []topsv1.UpgradeTask, request *topsv1.UpgradeRequest) {
	if task := taskOf(tasks, request.ID); task != nil {
		task.State, task.Reason, task.Message = topsv1.TaskFailed, reasonInvalidRequest, invalidMessage(request)
	}
}

func invalidMessage(request *topsv1.UpgradeRequest) string {
	return fmt.Sprintf("pod %q is not a pod of DaemonSet %q on this node", request.Pod.Namespace+"/"+request.Pod.Name,
		request.DaemonSet.Namespace+"/"+request.DaemonSet.Name)
}

// isValidName reports whether the API server could have a pod with this namespace and name.
func isValidName(pod topsv1.NamespacedRef) bool {
	return len(validation.IsDNS1123Label(pod.Namespace)) == 0 && len(validation.IsDNS1123Subdomain(pod.Name)) == 0
}

// WithTasks returns a copy of a NodeUpgrade with these tasks.
func WithTasks(upgrade *topsv1.NodeUpgrade, tasks []topsv1.UpgradeTask) *topsv1.NodeUpgrade {
	next := upgrade.DeepCopy()
	next.Status.Tasks = tasks
	return next
}
