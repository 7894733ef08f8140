package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// maxNote is the longest note of an event that the API server accepts, in bytes.
const maxNote = 1024

// withPlainEvents is a manager whose recorders write notes of one line, without control characters
// and not longer than the API server accepts.
type withPlainEvents struct{ ctrl.Manager }

// GetEventRecorder implements recorder.Provider.
func (m withPlainEvents) GetEventRecorder(name string) recorder.EventRecorder {
	return plainRecorder{m.Manager.GetEventRecorder(name)}
}

type plainRecorder struct{ recorder.EventRecorder }

// Eventf implements events.EventRecorder.
func (r plainRecorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, related, eventType, reason, action, "%s", plainNote(note, args))
}

// AnnotatedEventf implements events.AnnotatedEventRecorder.
func (r plainRecorder) AnnotatedEventf(regarding, related runtime.Object, annotations map[string]string, eventType, reason, action, note string, args ...any) {
	r.EventRecorder.AnnotatedEventf(regarding, related, annotations, eventType, reason, action, "%s", plainNote(note, args))
}

func plainNote(note string, args []any) string {
	return message.Short(plaintext.Line(fmt.Sprintf(note, args...)), maxNote)
}
