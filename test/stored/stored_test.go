package stored

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/test/apiserver"
	"github.com/topsops/gcu-operator/test/fixture"
)

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m))
}

// moment is what was stored in the middle of a rollout.
type moment struct {
	gr        topsv1.GcuResource
	dro       topsv1.DaemonRollout
	upgrades  []topsv1.NodeUpgrade
	revisions []appsv1.ControllerRevision
	// ours are the objects of our kinds.
	ours []unstructured.Unstructured
}

// read decodes a file, in which nothing may be unknown.
func read(t *testing.T, file string) *moment {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	check(t, err)
	var list unstructured.UnstructuredList
	check(t, yaml.Unmarshal(text, &list))
	m := &moment{}
	into := func(u *unstructured.Unstructured, object any) {
		check(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, object, true))
	}
	for _, u := range list.Items {
		switch u.GetKind() {
		case topsv1.GcuResourceKind:
			into(&u, &m.gr)
		case "DaemonRollout":
			into(&u, &m.dro)
		case "NodeUpgrade":
			m.upgrades = append(m.upgrades, topsv1.NodeUpgrade{})
			into(&u, &m.upgrades[len(m.upgrades)-1])
		case "UpgradePolicy":
			into(&u, &topsv1.UpgradePolicy{})
		case "UpgradePlan":
			into(&u, &topsv1.UpgradePlan{})
		case "GcuResourceRecreation":
			into(&u, &topsv1.GcuResourceRecreation{})
		case "ControllerRevision":
			m.revisions = append(m.revisions, appsv1.ControllerRevision{})
			into(&u, &m.revisions[len(m.revisions)-1])
			continue
		case "DaemonSet", "Node", "Pod":
			continue
		default:
			t.Fatalf("%s has a %s", file, u.GetKind())
		}
		m.ours = append(m.ours, u)
	}
	return m
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// added ignores defaults that there are only now.
var added = cmp.FilterPath(func(path cmp.Path) bool {
	field, is := path.Last().(cmp.MapIndex)
	if !is {
		return false
	}
	before, _ := field.Values()
	return !before.IsValid()
}, cmp.Ignore())

// TestTheCRDsKeepWhatWasStored: nothing is refused, and no field is lost when it is written again.
func TestTheCRDsKeepWhatWasStored(t *testing.T) {
	c := apiserver.Shared(t).Client(t, apiserver.Admin)
	files, err := filepath.Glob("testdata/*.yaml")
	check(t, err)
	kept := 0
	for _, file := range files {
		for _, u := range read(t, filepath.Base(file)).ours {
			kept++
			again := u.DeepCopy()
			again.SetResourceVersion("")
			again.SetUID("")
			again.SetFinalizers(nil)
			check(t, apiserver.CreateWithStatus(t.Context(), c, again))
			check(t, c.Get(t.Context(), client.ObjectKeyFromObject(again), again))
			for _, part := range []string{"spec", "status"} {
				if diff := cmp.Diff(u.Object[part], again.Object[part], added); diff != "" {
					t.Errorf("%s of %s %s in %s (-stored +again):\n%s", part, u.GetKind(), u.GetName(), file, diff)
				}
			}
			check(t, c.Delete(t.Context(), again))
		}
	}
	if kept < 40 {
		t.Errorf("%d objects are kept", kept)
	}
}

// TestARolloutGoesOn: slots, operations and revisions are those that were stored.
func TestARolloutGoesOn(t *testing.T) {
	for file, operations := range map[string]bool{"driver.yaml": true, "exporter.yaml": false} {
		m := read(t, file)
		status := m.dro.Status
		ledger := observed.Ledger(&status, fixture.Epoch)
		if ledger.Revision == "" || ledger.Revision != status.Revision || len(ledger.Slots) == 0 || len(ledger.Slots) != len(status.InFlight)+len(status.Queued) {
			t.Errorf("%s: ledger %+v of %+v", file, ledger, status)
		}
		for i := range ledger.Slots {
			slot, seen := &ledger.Slots[i], false
			for j := range m.upgrades {
				u := &m.upgrades[j]
				seen = seen || u.Name == slot.Node && u.Spec.Operation != nil && u.Spec.Operation.ID == slot.Operation && observed.HasLiveOperation(u)
			}
			if seen != operations || (slot.Operation != "") != operations {
				t.Errorf("%s: operation %q of %s, live: %t", file, slot.Operation, slot.Node, seen)
			}
		}
		history, err := display.HistoryOf(&m.gr, m.revisions, &m.dro)
		check(t, err)
		for _, r := range history {
			if r.Problem != "" {
				t.Errorf("%s: revision %d: %s", file, r.Number, r.Problem)
			}
		}
		shown := display.StatusOf(&m.gr, &m.dro, m.upgrades, nil, fixture.Epoch)
		if len(history) < 2 || shown.Rollout == nil || shown.Rollout.Nodes.InFlight == 0 || len(shown.Components) != 6 {
			t.Errorf("%s: %d revisions, %+v", file, len(history), shown)
		}
	}
}
