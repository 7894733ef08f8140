package daemonupdater

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/logging"
)

func TestLinesOfAPassSayWhoseTheyAre(t *testing.T) {
	c := newHaltedFleet(t, func(*topsv1.GcuResource) {})
	for name, test := range map[string]struct {
		group *observed.Group
		want  string
	}{
		"contract 57: a gr by name and uuid":               {&observed.Group{Kind: observed.KindGcuResource, Name: "fleet"}, "Hello gcuResource(name:fleet, uuid:uid-fleet) controller=daemonupdater\n"},
		"contract 57: a gr that is gone by name":           {&observed.Group{Kind: observed.KindGcuResource, Name: "gone"}, "Hello gcuResource(name:gone, uuid:\"\") controller=daemonupdater\n"},
		"a DaemonSet by namespace and name":                {&observed.Group{Kind: observed.KindDaemonSet, Namespace: "apps", Name: "fleet"}, "Hello DaemonSet(name:fleet, namespace:apps) controller=daemonupdater\n"},
		"what is about no group says the controller alone": {nil, "Hello controller=daemonupdater\n"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			log := logging.New(io.Discard, logging.Options{Format: logging.JSON, File: path})
			c.reconciler.logger(log)(test.group).Info("Hello")
			line, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(string(line), test.want) {
				t.Errorf("line %q does not end with %q", line, test.want)
			}
		})
	}
}

func TestARolloutWakesItsGroup(t *testing.T) {
	for _, g := range []observed.Group{{Kind: observed.KindGcuResource, Name: "fleet"}, {Kind: observed.KindDaemonSet, Namespace: "apps", Name: "driver"}} {
		key := g.RolloutKey("gcu-system")
		stored := &topsv1.DaemonRollout{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Spec:       topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: g.Kind, Name: g.Name}},
		}
		if diff := cmp.Diff([]observed.Group{g}, (&Reconciler{}).watches().OfRollout(context.Background(), stored)); diff != "" {
			t.Errorf("groups (-want +got):\n%s", diff)
		}
	}
}
