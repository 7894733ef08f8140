package observed

import (
	"cmp"
	"hash/fnv"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Verbs of annotation task-override that are about one component without an operation.
const (
	VerbUndo  = "undo"
	VerbRetry = "retry"
)

// Ask is what a person asks of a node: to bring the revision before back, by annotation task-override or at the node, or to
// end that.
type Ask struct {
	// ID is that of the task which answers it.
	ID   string
	Verb string
	// Target is a component, the name of a DaemonSet, or namespace.name; "" with UID.
	Target string
	// UID of the DaemonSet, of what was asked for at the node; "" otherwise.
	UID types.UID
	// From is the revision that the node is to leave, "" if it is whichever is the newest when the ask is read.
	From string
	// Withdrawn: it is not to be begun.
	Withdrawn bool
	// Begun: its task says that the node is on its way back.
	Begun bool
}

// AskOf returns what annotation task-override asks of a node, nil for nothing. A retry is about the operation of the node as long as
// that lives.
func AskOf(upgrade *topsv1.NodeUpgrade) *Ask {
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
	if parts[0] == VerbRetry && HasLiveOperation(upgrade) {
		return nil
	}
	return &Ask{ID: AskID(value), Verb: parts[0], Target: task[1], From: toLeave(strings.Join(parts[2:], ""))}
}

// fromMark begins the note of a value of annotation task-override that says which revision the node is to leave.
const fromMark = "from="

// toLeave returns the revision that a node is to leave by a note, "" if that does not say.
func toLeave(note string) string {
	from, says := strings.CutPrefix(note, fromMark)
	if !says {
		return ""
	}
	revision, _, _ := strings.Cut(from, " ")
	return revision
}

// UndoValue returns the value of annotation task-override that has a node leave a revision of a task's target; a note
// makes it another one than the last.
func UndoValue(task, revision, note string) string {
	return VerbUndo + ":" + task + ":" + fromMark + revision + " " + note
}

// AskOfRequest returns what a request asks for that is a rollback. One that does not say what is to be left leaves nothing.
func AskOfRequest(r *topsv1.UpgradeRequest) *Ask {
	return &Ask{ID: r.ID, Verb: VerbUndo, UID: r.DaemonSet.UID, From: cmp.Or(r.Revision, "none"), Withdrawn: r.Withdrawn}
}

// AskID returns the id of the task that answers a value of annotation task-override.
func AskID(value string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(value)) // never fails
	return "override-" + strconv.FormatUint(h.Sum64(), 36)
}
