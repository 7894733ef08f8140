package rollout

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// nodeFacts is a node with what follows from its pods.
type nodeFacts struct {
	Node
	frame *frame
	hash  uint64

	// absent: a pod is missing or terminating.
	absent bool
	// outdated: a pod that is not terminating is not at its target.
	// unavailable: a pod is missing, terminating or not available.
	// moving: a pod is missing, terminating, or at its target and not available, or an
	// operation is at work; on a node that is held none of these ends by itself.
	outdated, unavailable, moving bool
	// wants: an outdated pod may be replaced under the strategy.
	wants bool
	// heavy: one of them is replaced by an operation, or the node is held by one.
	heavy bool
	// unknown: the target of a member is not known yet.
	unknown bool
	// lapsed: offline, and went so shortly after this pod was made, which is at its
	// target like all others; nil when not.
	lapsed *Pod
	// standing follows from the above; changes is when it may change by time
	// alone, zero for never.
	standing standing
	changes  time.Time

	// wave is the index of its wave, lane its queue while it is a candidate.
	wave int
	lane *lane

	// queued, slot and failure are set by a decision, which notes in marked that the
	// node is one of Fleet.marked. The slot of a queued node is not in flight and
	// not here.
	marked  bool
	queued  bool
	slot    *Slot
	failure *Failure
}

// examine derives everything from the node and its pods, as of now.
func (f *nodeFacts) examine(now time.Time) {
	f.absent, f.outdated, f.wants, f.heavy, f.unknown = false, false, false, false, false
	f.unavailable = f.Disturbed
	held := f.Job.holds()
	f.moving = f.operating()
	f.changes = time.Time{}
	for i := range f.Pods {
		f.include(&f.Pods[i])
		note(&f.moving, !held && f.isMoving(&f.Pods[i])) // a node that is held waits for another operation
	}
	if held && f.Job.Ours && !f.LeftOut && f.frame.strategy == daemonset.AdvancedRollingUpdate {
		f.outdated, f.wants, f.heavy = true, true, true // it is known to work after another operation
	}
	f.standing = f.stands(now)
	f.lapsed = f.lapses()
}

// include adds what follows from one pod.
func (f *nodeFacts) include(pod *Pod) {
	absent := pod.UID == "" || pod.Terminating
	outdated := f.isOutdated(pod)

	note(&f.unknown, f.frame.members[pod.Member].Target == "")
	note(&f.absent, absent)
	note(&f.outdated, outdated)
	note(&f.unavailable, absent || !pod.Available)
	note(&f.wants, outdated && f.wanted(pod))
	note(&f.heavy, f.isHeavy(pod))
	f.changesAt(pod.AvailableAt)
}

// stands says where the node stands by its facts alone.
func (f *nodeFacts) stands(now time.Time) standing {
	rested := f.ReadySince.Add(f.frame.policy.Returned)
	switch {
	case f.updated():
		return finished
	case !f.Ready:
		return away
	case f.Job != nil && !f.Job.Ours:
		return occupied
	case !f.outdated:
		return ailing
	case f.byPeople() != candidate:
		return f.byPeople()
	case f.frame.policy.Returned > 0 && f.frame.strategy != daemonset.OTA && rested.After(now):
		f.changesAt(rested)
		return resting
	case f.heavy && f.Retry.After(now):
		f.changesAt(f.Retry)
		return deferred
	}
	return candidate
}

// byPeople says how people keep a node with something left to do from being started;
// candidate when they do not.
func (f *nodeFacts) byPeople() standing {
	switch {
	case !f.wants && slices.ContainsFunc(f.Pods, func(pod Pod) bool { return f.isOutdated(&pod) && f.allowed(&pod) }):
		return leftOut
	case len(f.Holds) > 0 && !f.operating():
		return withheld
	case !f.wants:
		return unasked
	}
	return candidate
}

// probation is how long after its new pod was made a node that goes offline is
// suspected to do so because of it.
const probation = 2 * time.Minute

// lapses returns the pod that may have taken the node offline.
func (f *nodeFacts) lapses() *Pod {
	if f.Ready || f.standing != finished {
		return nil
	}
	for i := range f.Pods {
		pod := &f.Pods[i]
		if !f.ReadySince.Before(pod.Created) && !f.ReadySince.After(pod.Created.Add(probation)) {
			return pod
		}
	}
	return nil
}

// changesAt notes a moment at which the facts change by time alone.
func (f *nodeFacts) changesAt(at time.Time) {
	if !at.IsZero() && (f.changes.IsZero() || at.Before(f.changes)) {
		f.changes = at
	}
}

// note sets a flag of the node that holds when it holds for one of its pods.
func note(flag *bool, holds bool) { *flag = *flag || holds }

// isOutdated reports whether the pod exists, is not going away, and is not at a known target.
func (f *nodeFacts) isOutdated(pod *Pod) bool {
	target := f.frame.members[pod.Member].Target
	return pod.UID != "" && !pod.Terminating && target != "" && pod.Revision != target
}

// concerns reports whether a slot waits for this pod: under OTA only for the
// members the node asked for, and for those replaced under the slot, also before
// the strategy was OTA.
func (f *nodeFacts) concerns(pod *Pod) bool {
	if f.frame.strategy != daemonset.OTA || pod.Request != nil {
		return true
	}
	return f.slot != nil && slices.Contains(f.slot.Members, f.frame.members[pod.Member].Key)
}

// isMoving reports whether a pod is on its way: missing, terminating, or at its
// target and not available.
func (f *nodeFacts) isMoving(pod *Pod) bool {
	return pod.UID == "" || pod.Terminating || (!f.isOutdated(pod) && !pod.Available)
}

// available: the node is Ready and every pod on it is available.
func (f *nodeFacts) available() bool { return f.Ready && !f.unavailable }

// updated: nothing is left to do on the node. An offline node is updated when
// its pods are at the target, whatever their state.
func (f *nodeFacts) updated() bool {
	if f.unknown {
		return false
	}
	if !f.Ready {
		return !f.outdated && !f.absent
	}
	return !f.outdated && !f.unavailable
}

// healed: a node that failed is all right after all.
func (f *nodeFacts) healed() bool { return f.Ready && f.updated() }

// settled: the slot of the node is not needed any more: nothing is left to
// replace, and every pod it waits for is available, also one that is outdated
// again and that nobody may replace now.
func (f *nodeFacts) settled() bool {
	if len(f.Pods) == 0 {
		return true
	}
	return f.Ready && !f.wants && !slices.ContainsFunc(f.Pods, func(pod Pod) bool {
		return f.concerns(&pod) && (pod.UID == "" || pod.Terminating || !pod.Available)
	})
}

// idle: nothing of what the slot was given for is under way: the pod it names is
// replaced and the node is available. When the target changes such a node
// queues again like any other.
func (f *nodeFacts) idle(slot Slot) bool {
	for i := range f.Pods {
		if f.Pods[i].UID == slot.Pod {
			return false
		}
	}
	return f.available()
}

// inFlight: by ledger or by live facts.
func (f *nodeFacts) inFlight() bool { return f.slot != nil || f.movingNow() }

// movingNow: in flight by live facts.
func (f *nodeFacts) movingNow() bool { return f.Ready && f.moving }

// uses: counts against the limit.
func (f *nodeFacts) uses() bool { return f.slot != nil || f.unavailableNow() }

// unavailableNow: counts against the limit by live facts.
func (f *nodeFacts) unavailableNow() bool { return f.Ready && f.unavailable }

// crashLooping returns a pod at its target, created under the slot, that
// crash-loops. One that did so before does not blame the new version.
func (f *nodeFacts) crashLooping(since time.Time) *Pod {
	for i := range f.Pods {
		pod := &f.Pods[i]
		created := !pod.Created.Before(since.Truncate(time.Second)) // the API keeps whole seconds
		if pod.CrashLooping != "" && created && f.concerns(pod) && !pod.Terminating && !f.isOutdated(pod) {
			return pod
		}
	}
	return nil
}

// next returns the pod to delete now, nil when the node waits for something.
// Pods are replaced in member order, each after the one before is available.
func (f *nodeFacts) next() *Pod {
	for i := range f.Pods {
		pod := &f.Pods[i]
		if !f.concerns(pod) {
			continue
		}
		if f.isHeavy(pod) {
			return nil
		}
		if f.isOutdated(pod) && f.wanted(pod) {
			return pod
		}
		if f.isOutdated(pod) || pod.Available {
			continue
		}
		return nil
	}
	return nil
}

// waiting is what a node in flight waits for.
type waiting struct {
	reason  Reason
	message string
}

func (f *nodeFacts) wait() waiting {
	if !f.Ready {
		return waiting{ReasonNodeLost, "the node went offline after it was started; it keeps its slot until it is back"}
	}
	if f.slot != nil && f.slot.Operation != "" && f.ended(f.slot.Operation) == nil {
		return f.underOperation()
	}
	for i := range f.Pods {
		pod := &f.Pods[i]
		member := f.frame.members[pod.Member].Key
		switch {
		case !f.concerns(pod):
		case pod.UID == "":
			return waiting{ReasonAwaitingPod, fmt.Sprintf("waiting for the DaemonSet controller to create the pod of %s", member)}
		case pod.Terminating:
			return waiting{ReasonTerminating, fmt.Sprintf("waiting for pod %s of %s to terminate", pod.Name, member)}
		case f.isOutdated(pod):
			return waiting{ReasonReplacing, fmt.Sprintf("replacing pod %s of %s", pod.Name, member)}
		case !pod.Available:
			return waiting{ReasonAwaitingAvailable, fmt.Sprintf("waiting for pod %s of %s to be available", pod.Name, member)}
		}
	}
	return waiting{ReasonReplacing, "every pod is replaced"}
}

// startable: a candidate without a slot that has not failed at this revision. A
// failed node starts again when it was lost and is back, or when its person
// asks again.
func (f *nodeFacts) startable() bool {
	if f.slot != nil || f.queued {
		return false
	}
	return f.failure == nil || f.failure.Reason == ReasonNodeLost || f.askedAfter(f.failure)
}

func (f *nodeFacts) askedAfter(failure *Failure) bool {
	for i := range f.Pods {
		if r := f.Pods[i].Request; r != nil && r.Time.After(failure.Since) {
			return true
		}
	}
	return false
}

// wanted reports whether a pod is to be replaced if it is outdated.
func (f *nodeFacts) wanted(pod *Pod) bool {
	return !f.LeftOut && !f.frame.members[pod.Member].LeftOut && f.allowed(pod)
}

// allowed reports whether the strategy replaces a pod that is outdated: always, or under
// OTA only when its node asked for this very pod.
func (f *nodeFacts) allowed(pod *Pod) bool {
	if f.frame.strategy == daemonset.OTA {
		return pod.Request != nil && pod.Request.PodUID == pod.UID
	}
	return f.frame.strategy == daemonset.AdvancedRollingUpdate
}

// compareHash orders nodes by a stable hash of the name, so that the same input
// gives the same order and neighbours by name are spread.
func (f *nodeFacts) compareHash(other *nodeFacts) int {
	return cmp.Or(cmp.Compare(f.hash, other.hash), cmp.Compare(f.Name, other.Name))
}

func hashOf(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // never fails
	return h.Sum64()
}
