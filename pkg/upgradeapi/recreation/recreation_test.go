package recreation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestNextStepOfARecreation(t *testing.T) {
	now := time.Date(2022, 10, 20, 3, 33, 48, 0, time.UTC)
	gr := func(change ...func(*topsv1.GcuResource)) *topsv1.GcuResource {
		o := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "x", UID: "old", Generation: 1}}
		for _, alter := range change {
			alter(o)
		}
		return o
	}
	uid := func(o *topsv1.GcuResource) { o.UID = "new" }
	ours := func(o *topsv1.GcuResource) {
		o.UID, o.Annotations = "new", map[string]string{topsv1.AnnotationRecreation: "this"}
	}
	going := func(o *topsv1.GcuResource) { o.DeletionTimestamp = &metav1.Time{Time: now} }
	running := func(o *topsv1.GcuResource) { o.Status.Phase, o.Status.ObservedGeneration = topsv1.PhaseRunning, 1 }
	changed := func(o *topsv1.GcuResource) { o.Generation = 2 }
	tests := []struct {
		name    string
		created bool
		present *topsv1.GcuResource
		after   time.Duration
		want    Step
	}{
		{"the old gr is there", false, gr(), 0, Delete},
		{"the old gr is going", false, gr(going), 0, AwaitGone},
		{"the old gr is going for days", false, gr(going), 100 * time.Hour, AwaitGone},
		{"the old gr is gone", false, nil, 0, Create},
		{"the old gr is gone after days", false, nil, 100 * time.Hour, Create},
		{"the new gr is there, and not stored", false, gr(ours), 0, StoreCreated},
		{"another gr is there", false, gr(uid), 0, Overtaken},
		{"a gr of another recreation is there", false, gr(ours, func(o *topsv1.GcuResource) { o.Annotations[topsv1.AnnotationRecreation] = "earlier" }), 0, Overtaken},
		{"the new gr is deployed", true, gr(ours), 0, AwaitRunning},
		{"the new gr is deployed for too long", true, gr(ours), Deadline + 1, Expired},
		{"the new gr runs", true, gr(ours, running), 0, Done},
		{"the new gr runs at last", true, gr(ours, running), Deadline + 1, Done},
		{"the new gr ran before it was changed", true, gr(ours, running, changed), 0, AwaitRunning},
		{"the new gr was deleted", true, nil, 0, Overtaken},
		{"the new gr is being deleted", true, gr(ours, running, going), 0, Overtaken},
		{"the new gr was replaced", true, gr(ours, func(o *topsv1.GcuResource) { o.UID = "newer" }), 0, Overtaken},
	}
	for _, tt := range tests {
		r := &Recreation{GcuResource: gr(), Replaces: "old", UID: "this", Accepted: now}
		if tt.created {
			r.Created = "new"
		}
		if got := r.Next(tt.present, now.Add(tt.after)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestARecreationIsReadAsItWasStored(t *testing.T) {
	r := &Recreation{GcuResource: &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "2"}}},
		Replaces: "old", Request: "id", Author: authenticationv1.UserInfo{Username: "who", Groups: []string{"all"}}, Accepted: time.Date(2022, 10, 20, 3, 33, 48, 0, time.UTC)}
	stored, err := r.Object()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Read(stored)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, spoil := range map[string]func(*topsv1.GcuResourceRecreation){
		"no gr":            func(c *topsv1.GcuResourceRecreation) { c.Spec.GcuResource.Raw = nil },
		"no gr to replace": func(c *topsv1.GcuResourceRecreation) { c.Spec.Replaces = "" },
		"another gr":       func(c *topsv1.GcuResourceRecreation) { c.Name = "y" },
	} {
		bad := stored.DeepCopy()
		spoil(bad)
		if _, err := Read(bad); err == nil {
			t.Errorf("%s: it is taken for one", name)
		}
	}
}
