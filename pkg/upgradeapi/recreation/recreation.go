// Package recreation is an accepted upgrade that deletes a gr and creates it again: how it
// is stored, and what comes next of it.
//
// What comes next is read from facts at each look ([Recreation.Next]): the old gr is there,
// is being deleted, is gone, the new one is there, is Running. It is pure.
package recreation

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// Recreation is an accepted upgrade of mode recreate: the gr to be created once
// the old one is gone. It is stored in a ConfigMap before anything is deleted.
type Recreation struct {
	// GcuResource is to be created.
	GcuResource *topsv1.GcuResource
	// Replaces is the UID of the gr that has to be gone before.
	Replaces types.UID
	// Created is the UID of the gr that was created; empty until it is stored.
	Created types.UID
	// Request is the id of the request, User who sent it.
	Request, User string
	// Accepted is when that was.
	Accepted time.Time
	// UID is that of the ConfigMap; empty until it is stored.
	UID types.UID
}

// Keys of the ConfigMap.
const (
	keyResource = "gcuresource"
	keyReplaces = "replaces"
	keyCreated  = "created"
	keyRequest  = "request"
	keyUser     = "user"
	keyAccepted = "accepted"
)

// Name returns the name of the ConfigMap of a gr: it is one, so that there is one
// recreation of a gr at a time.
func Name(gr string) string { return "gcu-upgrade-manager-" + gr }

// ConfigMap returns what is stored, in the operator's namespace.
func (r *Recreation) ConfigMap(namespace string) (*corev1.ConfigMap, error) {
	data, err := json.Marshal(r.GcuResource)
	if err != nil {
		return nil, fmt.Errorf("encoding the blueprint: %w", err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name(r.GcuResource.Name),
			Labels: map[string]string{topsv1.LabelManagedBy: topsv1.ManagedBy, topsv1.LabelRecreation: r.GcuResource.Name}},
		Data: map[string]string{
			keyResource: string(data), keyReplaces: string(r.Replaces), keyRequest: r.Request, keyUser: r.User,
			keyAccepted: r.Accepted.UTC().Format(time.RFC3339),
		},
	}, nil
}

// Read reads a stored recreation. An error means that somebody else
// wrote the ConfigMap.
func Read(stored *corev1.ConfigMap) (*Recreation, error) {
	r := &Recreation{
		GcuResource: &topsv1.GcuResource{}, Replaces: types.UID(stored.Data[keyReplaces]), Created: types.UID(stored.Data[keyCreated]),
		Request: stored.Data[keyRequest], User: stored.Data[keyUser], UID: stored.UID,
	}
	if err := request.DecodeStrictly([]byte(stored.Data[keyResource]), r.GcuResource); err != nil {
		return nil, fmt.Errorf("reading the GcuResource in ConfigMap %s: %w", stored.Name, err)
	}
	var err error
	if r.Accepted, err = time.Parse(time.RFC3339, stored.Data[keyAccepted]); err != nil {
		return nil, fmt.Errorf("reading the time in ConfigMap %s: %w", stored.Name, err)
	}
	if r.Replaces == "" || stored.Name != Name(r.GcuResource.Name) {
		return nil, errors.New("ConfigMap " + stored.Name + " holds no recreation of its GcuResource")
	}
	return r, nil
}

// Open reports whether the new gr is still to be created.
func (r *Recreation) Open() bool { return r.Created == "" }

// Conflict returns an error while nothing else may change the gr: until the new one is
// created.
func (r *Recreation) Conflict() error {
	if r == nil || !r.Open() {
		return nil
	}
	return request.Conflict("an upgrade of %s is under way, which deletes it and creates it again (request %s): wait until it is created", r.GcuResource.Name, r.Request)
}

// Subject returns the UID of the gr that the next steps are about: the old one until the
// new one is created.
func (r *Recreation) Subject() types.UID {
	if r.Open() {
		return r.Replaces
	}
	return r.Created
}

// WithCreated returns a stored recreation that also names the new gr. From then on a gr that
// is absent was deleted, and is not created again.
func WithCreated(stored *corev1.ConfigMap, created types.UID) *corev1.ConfigMap {
	after := stored.DeepCopy()
	after.Data[keyCreated] = string(created)
	return after
}

// Step is what comes next of a recreation.
type Step string

const (
	// Delete asks for the deletion of the old gr.
	Delete Step = "Delete"
	// AwaitGone waits until the old gr is gone.
	AwaitGone Step = "AwaitGone"
	// Create creates the new gr.
	Create Step = "Create"
	// StoreCreated stores which gr is the new one.
	StoreCreated Step = "StoreCreated"
	// AwaitRunning waits until the new gr is Running.
	AwaitRunning Step = "AwaitRunning"
	// Done means that the new gr is Running.
	Done Step = "Done"
	// Overtaken means that somebody else created or deleted the gr meanwhile.
	Overtaken Step = "Overtaken"
	// Expired means that the new gr is not Running after Deadline; the operator goes on with it.
	Expired Step = "Expired"
)

// Deadline is how long the new gr is watched (decision D8). Until it has
// been created there is no deadline: what was accepted is not given up.
const Deadline = 30 * time.Minute

// Next returns what comes next, from facts: present is the gr as the API server
// has it, nil when there is none. Done is a fact, so whoever looks after a
// crash goes on at the right step.
func (r *Recreation) Next(present *topsv1.GcuResource, now time.Time) Step {
	if r.Open() {
		return r.nextOpen(present)
	}
	switch {
	case present == nil || present.UID != r.Created || present.DeletionTimestamp != nil:
		return Overtaken
	case present.Status.Phase == topsv1.PhaseRunning && present.Status.ObservedGeneration == present.Generation:
		return Done
	case now.Sub(r.Accepted) > Deadline:
		return Expired
	}
	return AwaitRunning
}

func (r *Recreation) nextOpen(present *topsv1.GcuResource) Step {
	switch {
	case present == nil:
		return Create
	case present.UID == r.Replaces && present.DeletionTimestamp == nil:
		return Delete
	case present.UID == r.Replaces:
		return AwaitGone
	case present.Annotations[topsv1.AnnotationRecreation] == string(r.UID):
		return StoreCreated
	}
	return Overtaken
}

// Successor returns the gr to create, marked with the recreation it comes from.
func (r *Recreation) Successor() *topsv1.GcuResource {
	gr := r.GcuResource.DeepCopy()
	if gr.Annotations == nil {
		gr.Annotations = map[string]string{}
	}
	gr.Annotations[topsv1.AnnotationRecreation] = string(r.UID)
	return gr
}
