// Package notification makes CloudEvents of the entries in a rollout's record that users want to know at once: it is
// halted, waits for an approval, is complete, or was rolled back. The package is pure.
//
// An event is made only from the stored entry, so that it is always the same, with the same ID, whichever manager
// sends it. An entry is marked as pending in the write that stores it. Once it is delivered, a later write of the status
// removes the mark: if a manager dies in between, the event is sent again.
package notification

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/uuid"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// types maps the events of the record that are sent to their CloudEvents types.
var types = map[topsv1.RolloutEvent]string{
	topsv1.RecordHalted:           "com.enflame.topsops.rollout.halted.v1",
	topsv1.RecordAwaitingApproval: "com.enflame.topsops.rollout.awaiting-approval.v1",
	topsv1.RecordComplete:         "com.enflame.topsops.rollout.complete.v1",
	topsv1.RecordRolledBack:       "com.enflame.topsops.rollout.rolled-back.v1",
}

// IsSent reports whether an event is sent as a notification.
func IsSent(e topsv1.RolloutEvent) bool { return types[e] != "" }

// Message is one notification.
type Message struct {
	// ID is the same each time the notification is sent.
	ID string
	// Time of the event.
	Time time.Time
	// Body is a CloudEvent as JSON.
	Body []byte
}

// Data is the data of a CloudEvent.
type Data struct {
	// Kind, Namespace and Name of the GcuResource or DaemonSet that is rolled out.
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Event, Revision, Subject, Nodes and Message of the entry in status.record.
	Event    string `json:"event"`
	Revision string `json:"revision"`
	Subject  string `json:"subject,omitempty"`
	Nodes    int32  `json:"nodes,omitempty"`
	Message  string `json:"message,omitempty"`
}

// Unmark returns the record of a rollout without the marks of delivered notifications, and without any mark if
// notifications are off.
func Unmark(dro *topsv1.DaemonRollout, record []topsv1.RolloutRecordEntry, on bool, delivered func(id string) bool) []topsv1.RolloutRecordEntry {
	record = slices.Clone(record)
	for i := range record {
		if e := &record[i]; e.Pending && (!on || delivered(idOf(dro, e))) {
			e.Pending = false
		}
	}
	return record
}

// Pending returns the notifications that a stored rollout marks as not yet delivered. It returns an error if one cannot be
// expressed as a CloudEvent.
func Pending(dro *topsv1.DaemonRollout) ([]Message, error) {
	var list []Message
	for i := range dro.Status.Record {
		e := &dro.Status.Record[i]
		if !e.Pending || !IsSent(e.Event) {
			continue
		}
		body, err := body(dro, e)
		if err != nil {
			return nil, fmt.Errorf("making a CloudEvent of %s: %w", e.Event, err)
		}
		list = append(list, Message{ID: idOf(dro, e), Time: e.Time.UTC(), Body: body})
	}
	return list, nil
}

// idOf returns the ID of a notification: a version 5 UUID of the stored entry.
func idOf(dro *topsv1.DaemonRollout, e *topsv1.RolloutRecordEntry) string {
	name := strings.Join([]string{string(dro.UID), string(e.Event), e.Revision, e.Subject, e.Time.UTC().Format(time.RFC3339)}, "\n")
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(name)).String()
}

func body(dro *topsv1.DaemonRollout, e *topsv1.RolloutRecordEntry) ([]byte, error) {
	target := dro.Spec.TargetRef
	data := Data{Kind: target.Kind, Name: target.Name, Event: string(e.Event), Revision: e.Revision, Subject: e.Subject, Nodes: e.Nodes, Message: e.Message}
	if target.Kind != topsv1.GcuResourceKind {
		data.Namespace = dro.Namespace
	}
	c := event.New()
	c.SetID(idOf(dro, e))
	c.SetType(types[e.Event])
	c.SetSource(fmt.Sprintf("/apis/%s/namespaces/%s/daemonrollouts/%s", topsv1.GroupVersion, dro.Namespace, dro.Name))
	c.SetSubject(target.Kind + "/" + target.Name)
	c.SetTime(e.Time.UTC())
	if err := c.SetData(event.ApplicationJSON, data); err != nil {
		return nil, err
	}
	return c.MarshalJSON()
}
