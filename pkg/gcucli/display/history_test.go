package display

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/golden"
)

func TestGoldenHistory(t *testing.T) {
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "my-gr", UID: "gr"}, Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "1.2"}}}
	revision := func(number int64, name, uid, data string) appsv1.ControllerRevision {
		return appsv1.ControllerRevision{Revision: number, Data: runtime.RawExtension{Raw: []byte(data)}, ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(10-number) * time.Hour)),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: "my-gr", UID: "gr", Controller: ptr.To(true)}}}}
	}
	list := []appsv1.ControllerRevision{
		revision(2, "my-gr-b", "gr", `{"spec":{"driver":{"notDeploy":false,"version":"1.1","env":[{"name":"A","value":"1"}]}}}`),
		revision(4, "my-gr-d", "gr", `{"spec":{"driver":{"notDeploy":false,"version":"1.2"}}}`),
		revision(1, "my-gr-a", "gr", `{"spec":{"driver":{"notDeploy":false,"version":"1.0"}}}`),
		revision(3, "my-gr-c", "gr", `{}`),
		revision(9, "other", "gr", `{}`),
	}
	list[4].OwnerReferences[0].UID = "of the gr of this name before"
	dro := &topsv1.DaemonRollout{Status: topsv1.DaemonRolloutStatus{LastKnownGood: &topsv1.KnownGoodRevision{GcuResourceRevision: "my-gr-b"}}}
	history, err := HistoryOf(gr, list, dro)
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "golden/history.txt", HistoryText(history, Style{Now: now}))
	golden.Check(t, "golden/history.out.yaml", inYAML(t, history))
	for requested, want := range map[string]string{"": "my-gr-b", "1": "my-gr-a", "my-gr-c": "my-gr-c"} {
		if r, err := FindRevision(history, requested); err != nil || r.Name != want {
			t.Errorf("revision %q is %v, %v, want %s", requested, r, err, want)
		}
	}
	if _, err := FindRevision(history, "9"); err == nil || !strings.Contains(err.Error(), "no revision 9 is kept; there are 4 (my-gr-d)") {
		t.Errorf("revision 9: %v", err)
	}
	if _, err := FindRevision(history[:1], ""); err == nil {
		t.Error("there is a revision before the only one")
	}
	// An edit that the operator has not kept yet: no revision is present.
	gr.Spec.Driver.Version = "1.3"
	if history, err = HistoryOf(gr, list, nil); err != nil || history[0].Present {
		t.Errorf("revision %s is the current one, %v", history[0].Name, err)
	}
}
