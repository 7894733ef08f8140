package observed

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Verbs of annotation task-override that need no operation: about one component of a node.
const (
	VerbUndo  = "undo"
	VerbRetry = "retry"
)

// PinRequest is a user's request, by annotation task-override or at the node, to bring back the revision before and pin
// the node there (undo), or to end that (retry).
type PinRequest struct {
	// ID of the task that answers the request.
	ID   string
	Verb string
	// Target is a component, the name of a DaemonSet, or namespace.name; "" with UID.
	Target string
	// UID of the DaemonSet, for a request made at the node; "" otherwise.
	UID types.UID
	// From is the revision that the node is to leave, "" for the newest when the request is read.
	From string
	// Withdrawn: it was canceled at the node, and is not carried out unless it has Begun.
	Withdrawn bool
	// Begun: its task reports that the node is going back.
	Begun bool
}

// PinRequestOf returns the request of annotation task-override, nil for none. A retry is about an operation, and no pin
// request, while the node has a live one, or if the last one has read it. One with an answer stays a pin request: it takes
// effect once, and not again when an operation has ended.
func PinRequestOf(upgrade *topsv1.NodeUpgrade) *PinRequest {
	if upgrade == nil {
		return nil
	}
	value := upgrade.Annotations[topsv1.AnnotationTaskOverride]
	parts := strings.SplitN(value, ":", 3)
	if len(parts) < 2 || parts[0] != VerbUndo && parts[0] != VerbRetry {
		return nil
	}
	task := strings.Split(parts[1], "_")
	if len(task) != 3 || task[0] != upgrade.Name || task[2] != "replace" {
		return nil
	}
	id := OverrideTaskID(value)
	answered := slices.ContainsFunc(upgrade.Status.Tasks, func(t topsv1.UpgradeTask) bool { return t.RequestID == id })
	if parts[0] == VerbRetry && !answered && (HasLiveOperation(upgrade) || wasRead(upgrade, value)) {
		return nil
	}
	return &PinRequest{ID: id, Verb: parts[0], Target: task[1], From: revisionToLeave(strings.Join(parts[2:], ""))}
}

// wasRead reports whether the last operation of a node has read a value of annotation task-override.
func wasRead(upgrade *topsv1.NodeUpgrade, value string) bool {
	op := upgrade.Status.Operation
	return op != nil && op.Override == value
}

// fromMark is the prefix of a note in annotation task-override that names the revision the node is to leave.
const fromMark = "from="

// revisionToLeave returns the revision that a note tells a node to leave, "" if it names none.
func revisionToLeave(note string) string {
	from, says := strings.CutPrefix(note, fromMark)
	if !says {
		return ""
	}
	revision, _, _ := strings.Cut(from, " ")
	return revision
}

// UndoValue returns the value of annotation task-override that makes a node leave a revision of a task's target. Another
// note makes it a new request.
func UndoValue(task, revision, note string) string {
	return VerbUndo + ":" + task + ":" + fromMark + revision + " " + note
}

// PinRequestFrom returns the pin request of a rollback that was requested at a node. One that names no revision matches
// none.
func PinRequestFrom(r *topsv1.UpgradeRequest) *PinRequest {
	return &PinRequest{ID: r.ID, Verb: VerbUndo, UID: r.DaemonSet.UID, From: cmp.Or(r.Revision, "none"), Withdrawn: r.Withdrawn}
}

// OverrideTaskID returns the ID of the task that answers a value of annotation task-override.
func OverrideTaskID(value string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(value)) // never fails
	return "override-" + strconv.FormatUint(h.Sum64(), 36)
}
