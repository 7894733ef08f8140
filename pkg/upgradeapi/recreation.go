package upgradeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// recreation is an accepted upgrade of mode recreate: the gr to be created once
// the old one is gone. It is stored in a ConfigMap before anything is deleted.
type recreation struct {
	// gr is to be created.
	gr *topsv1.GcuResource
	// replaces is the UID of the gr that has to be gone before.
	replaces types.UID
	// created is the UID of the gr that was created; empty until it is stored.
	created types.UID
	// request is the id of the request, user who sent it.
	request, user string
	// accepted is when that was.
	accepted time.Time
	// uid is that of the ConfigMap; empty until it is stored.
	uid types.UID
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

// recreationName names the ConfigMap of a gr: it is one, so that there is one
// recreation of a gr at a time.
func recreationName(gr string) string { return "gcu-upgrade-manager-" + gr }

// configMap returns what is stored, in the operator's namespace.
func (r *recreation) configMap(namespace string) (*corev1.ConfigMap, error) {
	data, err := json.Marshal(r.gr)
	if err != nil {
		return nil, fmt.Errorf("encoding the blueprint: %w", err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: recreationName(r.gr.Name),
			Labels: map[string]string{topsv1.LabelManagedBy: topsv1.ManagedBy, topsv1.LabelRecreation: r.gr.Name}},
		Data: map[string]string{
			keyResource: string(data), keyReplaces: string(r.replaces), keyRequest: r.request, keyUser: r.user,
			keyAccepted: r.accepted.UTC().Format(time.RFC3339),
		},
	}, nil
}

// recreationIn reads a stored recreation. An error means that somebody else
// wrote the ConfigMap.
func recreationIn(stored *corev1.ConfigMap) (*recreation, error) {
	r := &recreation{
		gr: &topsv1.GcuResource{}, replaces: types.UID(stored.Data[keyReplaces]), created: types.UID(stored.Data[keyCreated]),
		request: stored.Data[keyRequest], user: stored.Data[keyUser], uid: stored.UID,
	}
	if err := decodeStrictly([]byte(stored.Data[keyResource]), r.gr); err != nil {
		return nil, fmt.Errorf("reading the GcuResource in ConfigMap %s: %w", stored.Name, err)
	}
	var err error
	if r.accepted, err = time.Parse(time.RFC3339, stored.Data[keyAccepted]); err != nil {
		return nil, fmt.Errorf("reading the time in ConfigMap %s: %w", stored.Name, err)
	}
	if r.replaces == "" || stored.Name != recreationName(r.gr.Name) {
		return nil, errors.New("ConfigMap " + stored.Name + " holds no recreation of its GcuResource")
	}
	return r, nil
}

// open reports whether the new gr is still to be created.
func (r *recreation) open() bool { return r.created == "" }

// step is what comes next of a recreation.
type step string

const (
	// stepDelete asks for the deletion of the old gr.
	stepDelete step = "Delete"
	// stepAwaitGone waits until the old gr is gone.
	stepAwaitGone step = "AwaitGone"
	// stepCreate creates the new gr.
	stepCreate step = "Create"
	// stepStoreCreated stores which gr is the new one.
	stepStoreCreated step = "StoreCreated"
	// stepAwaitRunning waits until the new gr is Running.
	stepAwaitRunning step = "AwaitRunning"
	// stepDone: the new gr is Running.
	stepDone step = "Done"
	// stepOvertaken: somebody else created or deleted the gr meanwhile.
	stepOvertaken step = "Overtaken"
	// stepExpired: the new gr is not Running after upgradeDeadline; the operator goes on with it.
	stepExpired step = "Expired"
)

// upgradeDeadline is how long the new gr is watched (decision D8). Until it has
// been created there is no deadline: what was accepted is not given up.
const upgradeDeadline = 30 * time.Minute

// next returns what comes next, from facts: present is the gr as the API server
// has it, nil when there is none. Done is a fact, so whoever looks after a
// crash goes on at the right step.
func (r *recreation) next(present *topsv1.GcuResource, now time.Time) step {
	if r.open() {
		return r.nextOpen(present)
	}
	switch {
	case present == nil || present.UID != r.created || present.DeletionTimestamp != nil:
		return stepOvertaken
	case present.Status.Phase == topsv1.PhaseRunning && present.Status.ObservedGeneration == present.Generation:
		return stepDone
	case now.Sub(r.accepted) > upgradeDeadline:
		return stepExpired
	}
	return stepAwaitRunning
}

func (r *recreation) nextOpen(present *topsv1.GcuResource) step {
	switch {
	case present == nil:
		return stepCreate
	case present.UID == r.replaces && present.DeletionTimestamp == nil:
		return stepDelete
	case present.UID == r.replaces:
		return stepAwaitGone
	case present.Annotations[topsv1.AnnotationRecreation] == string(r.uid):
		return stepStoreCreated
	}
	return stepOvertaken
}

// successor returns the gr to create, marked with the recreation it comes from.
func (r *recreation) successor() *topsv1.GcuResource {
	gr := r.gr.DeepCopy()
	if gr.Annotations == nil {
		gr.Annotations = map[string]string{}
	}
	gr.Annotations[topsv1.AnnotationRecreation] = string(r.uid)
	return gr
}
