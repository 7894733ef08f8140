package observed

import (
	"hash/fnv"
	"strconv"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Verbs of annotation task-override that are about one component without an operation.
const (
	VerbUndo  = "undo"
	VerbRetry = "retry"
)

// Ask is what a person asks of a node by annotation task-override: to bring the revision before back, or to end
// that.
type Ask struct {
	// ID is that of the task which answers it.
	ID   string
	Verb string
	// Target is a component, the name of a DaemonSet, or namespace.name.
	Target string
	// Begun: its task says that the node is on its way back.
	Begun bool
}

// AskOf returns what a person asks of a node, nil for nothing. A retry is about the operation of the node as long as
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
	return &Ask{ID: AskID(value), Verb: parts[0], Target: task[1]}
}

// AskID returns the id of the task that answers a value of annotation task-override.
func AskID(value string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(value)) // never fails
	return "override-" + strconv.FormatUint(h.Sum64(), 36)
}
