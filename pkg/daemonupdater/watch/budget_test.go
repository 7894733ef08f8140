package watch

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/test/fixture"
)

func watchOf(t *testing.T, objects ...client.Object) Groups {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return Groups{Reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		Changed: &ChangedNodes{}, Clock: func() time.Time { return fixture.Epoch }}
}

// asking returns the NodeUpgrade of a node that asks for the driver, differently each time.
func asking(node string, driver *appsv1.DaemonSet, n int) *topsv1.NodeUpgrade {
	return fixture.NodeUpgrade(node, fixture.Request(fmt.Sprint(n), driver, fixture.PodOn(driver, node, fixture.OldHash)))
}

func TestInventedDaemonSetsCostOnePass(t *testing.T) {
	invented := fixture.NodeUpgrade("a")
	for i := range 64 {
		invented.Status.Requests = append(invented.Status.Requests, asking("a", fixture.DaemonSet(fmt.Sprint("invented-", i)), i).Status.Requests...)
	}
	if groups := watchOf(t).OfNodeUpgrade(t.Context(), invented); len(groups) != 1 || groups[0] != (observed.Group{Kind: observed.KindNode, Name: "a"}) {
		t.Errorf("wakes %v, want the node alone", groups)
	}
}
