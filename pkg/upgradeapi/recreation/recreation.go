// Package recreation decides the steps of an accepted upgrade that deletes a gr and creates
// it again, and how it is stored.
//
// [Recreation.Next] derives the next step from the state of the cluster: the old gr exists,
// is being deleted, is gone, the new one exists, is Running. The package is pure.
package recreation

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/strictyaml"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// Recreation is an accepted upgrade of mode recreate: the gr to create once the old one is
// gone. It is stored in a GcuResourceRecreation before anything is deleted.
type Recreation struct {
	// GcuResource to create.
	GcuResource *topsv1.GcuResource
	// Replaces is the UID of the old gr.
	Replaces types.UID
	// Created is the UID of the new gr; empty until it is stored.
	Created types.UID
	// Request is the id of the request, Author who sent it.
	Request string
	Author  authenticationv1.UserInfo
	// Accepted is when the request was accepted.
	Accepted time.Time
	// UID is that of the stored object; empty until it is stored.
	UID types.UID
}

// Object returns the recreation as it is stored, under the name of its gr: there is one recreation
// of a gr at a time.
func (r *Recreation) Object() (*topsv1.GcuResourceRecreation, error) {
	data, err := json.Marshal(r.GcuResource)
	if err != nil {
		return nil, fmt.Errorf("encoding the blueprint: %w", err)
	}
	return &topsv1.GcuResourceRecreation{
		ObjectMeta: metav1.ObjectMeta{Name: r.GcuResource.Name, Labels: map[string]string{topsv1.LabelManagedBy: topsv1.ManagedBy}},
		Spec: topsv1.GcuResourceRecreationSpec{GcuResource: runtime.RawExtension{Raw: data}, Replaces: r.Replaces, RequestID: r.Request,
			Author: r.Author, AcceptedTime: metav1.NewTime(r.Accepted.Truncate(time.Second))},
	}, nil
}

// Read reads a stored recreation. An error means that someone else wrote it.
func Read(stored *topsv1.GcuResourceRecreation) (*Recreation, error) {
	spec := &stored.Spec
	r := &Recreation{
		GcuResource: &topsv1.GcuResource{}, Replaces: spec.Replaces, Created: spec.Created,
		Request: spec.RequestID, Author: spec.Author, Accepted: spec.AcceptedTime.Time, UID: stored.UID,
	}
	if err := strictyaml.UnmarshalJSON(spec.GcuResource.Raw, r.GcuResource); err != nil {
		return nil, fmt.Errorf("reading the GcuResource in GcuResourceRecreation %s: %w", stored.Name, err)
	}
	if r.Replaces == "" || stored.Name != r.GcuResource.Name {
		return nil, errors.New("GcuResourceRecreation " + stored.Name + " holds no recreation of its GcuResource")
	}
	return r, nil
}

// Open reports whether the new gr has yet to be created.
func (r *Recreation) Open() bool { return r.Created == "" }

// Conflict returns an error while nothing else may change the gr: until the new one is
// created. A nil recreation has none.
func (r *Recreation) Conflict() error {
	if r == nil || !r.Open() {
		return nil
	}
	return request.Conflict("an upgrade of %s is under way, which deletes it and creates it again (request %s): wait until it is created", r.GcuResource.Name, r.Request)
}

// Subject returns the UID of the old gr, of the new one once it is created.
func (r *Recreation) Subject() types.UID {
	if r.Open() {
		return r.Replaces
	}
	return r.Created
}

// WithCreated returns a stored recreation with the UID of the new gr. From then on a missing
// gr counts as deleted and is not created again.
func WithCreated(stored *topsv1.GcuResourceRecreation, created types.UID) *topsv1.GcuResourceRecreation {
	after := stored.DeepCopy()
	after.Spec.Created = created
	return after
}

// Step is the next step of a recreation.
type Step string

const (
	// Delete deletes the old gr.
	Delete Step = "Delete"
	// AwaitGone waits until the old gr is gone.
	AwaitGone Step = "AwaitGone"
	// Create creates the new gr.
	Create Step = "Create"
	// StoreCreated stores the UID of the new gr.
	StoreCreated Step = "StoreCreated"
	// AwaitRunning waits until the new gr is Running.
	AwaitRunning Step = "AwaitRunning"
	// Done means that the new gr is Running.
	Done Step = "Done"
	// Overtaken means that someone else created or deleted the gr meanwhile.
	Overtaken Step = "Overtaken"
	// Expired means that the new gr is not Running after Deadline; the operator keeps
	// deploying it.
	Expired Step = "Expired"
)

// Deadline is how long the new gr is watched (decision D8). There is none before it is
// created: an accepted upgrade is not given up.
const Deadline = 30 * time.Minute

// Next returns the next step; present is the gr in the API server, nil if there is none. It
// depends on that state only, so that a recreation continues correctly after a crash.
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

// Successor returns the gr to create, annotated with the recreation.
func (r *Recreation) Successor() *topsv1.GcuResource {
	gr := r.GcuResource.DeepCopy()
	if gr.Annotations == nil {
		gr.Annotations = map[string]string{}
	}
	gr.Annotations[topsv1.AnnotationRecreation] = string(r.UID)
	return gr
}
