package recreation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// FuzzRead reads what is stored for a recreation. It checks that only a gr of the object's name is created, that
// it is read the same when it is stored again, and that nothing is deleted but the gr that it replaces.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"gr","annotations":{"a":"b"}},"spec":{"driver":{"version":"2"}}}`), "gr", "old", "", "old")
	f.Add([]byte(`{"metadata":{"name":"other"}}`), "gr", "old", "new", "new")
	f.Add([]byte(`{"metadata":{"name":"gr"},"spec":{},"spec":{"driver":{}}}`), "gr", "", "new", "")
	f.Add([]byte(`{"apiVersion":"topsops.enflame.com/v1","kind":"GcuResource","metadata":{"name":"gr","annotations":{"topsops.enflame.com/recreation":"uid"}}}`), "gr", "old", "", "newer")
	f.Add([]byte(`{"metadata":{"name":"gr","annotations":{}}}`), "gr", "old", "", "old")
	f.Fuzz(func(t *testing.T, data []byte, name, replaces, created, present string) {
		stored := &topsv1.GcuResourceRecreation{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid"},
			Spec: topsv1.GcuResourceRecreationSpec{GcuResource: runtime.RawExtension{Raw: data}, Replaces: types.UID(replaces), Created: types.UID(created)}}
		r, err := Read(stored)
		if err != nil {
			return
		}
		if gr := r.Successor(); gr.Name != name || gr.Annotations[topsv1.AnnotationRecreation] != "uid" {
			t.Errorf("%q of recreation %q would be created, with %v", gr.Name, name, gr.Annotations)
		}
		object, err := r.Object()
		if err != nil {
			t.Fatal(err)
		}
		object.UID, object.Spec.Created = stored.UID, stored.Spec.Created
		again, err := Read(object)
		if diff := cmp.Diff(r.GcuResource, again.GcuResource, cmpopts.EquateEmpty()); err != nil || diff != "" {
			t.Errorf("stored again: %v\n%s", err, diff)
		}
		now := time.Unix(0, 0)
		for _, gr := range []*topsv1.GcuResource{nil, {ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(present)}}} {
			step := r.Next(gr, now)
			if step == Delete && (gr == nil || present != replaces || created != "") || step == Create && (gr != nil || created != "") {
				t.Errorf("%s, with gr %+v, replacing %q, created %q", step, gr, replaces, created)
			}
		}
	})
}
