package daemonupdater

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/logging"
)

func TestNodeChanged(t *testing.T) {
	tests := []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"a node that goes offline", func(n *corev1.Node) { offline(n) }, true},
		{"another label", func(n *corev1.Node) { n.Labels["gcu"] = "true" }, true},
		{"a label that is gone", func(n *corev1.Node) { n.Labels = nil }, true},
		{"another taint", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: "NoExecute"}} }, true},
		{"another node of the same name", func(n *corev1.Node) { n.UID = "uid-2" }, true},
		{"not a heartbeat", func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = ago(0) }, false},
		{"not another condition", func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue})
		}, false},
		{"not an annotation", func(n *corev1.Node) { n.Annotations = map[string]string{"a": "b"} }, false},
		{"not an image", func(n *corev1.Node) { n.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}} }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, after := node("a"), node("a")
			tt.change(after)
			if got := nodeChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tt.want {
				t.Errorf("passes = %v, want %v", got, tt.want)
			}
			if got := nodeChanged().Update(event.UpdateEvent{ObjectOld: after, ObjectNew: before}); got != tt.want {
				t.Errorf("passes the way back = %v, want %v", got, tt.want)
			}
		})
	}
	t.Run("a node that changes from silent to not ready", func(t *testing.T) {
		silent, notReady := offline(node("a")), offline(node("a"))
		notReady.Status.Conditions[0].Status = corev1.ConditionFalse
		if nodeChanged().Update(event.UpdateEvent{ObjectOld: silent, ObjectNew: notReady}) {
			t.Error("passes, though it is offline before and after")
		}
	})
	t.Run("nodes that appear and vanish", func(t *testing.T) {
		if !nodeChanged().Create(event.CreateEvent{Object: node("a")}) || !nodeChanged().Delete(event.DeleteEvent{Object: node("a")}) {
			t.Error("does not pass")
		}
	})
}

func TestARolloutWakesItsGroup(t *testing.T) {
	for _, g := range []Group{{Kind: kindGcuResource, Name: "fleet"}, {Kind: kindDaemonSet, Namespace: "apps", Name: "driver"}} {
		key := g.rolloutKey("gcu-system")
		stored := &topsv1.DaemonRollout{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Spec:       topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: g.Kind, Name: g.Name}},
		}
		if diff := cmp.Diff([]Group{g}, (&Reconciler{}).groupOfRollout(context.Background(), stored)); diff != "" {
			t.Errorf("groups (-want +got):\n%s", diff)
		}
	}
}

func TestLinesOfAPassSayWhoseTheyAre(t *testing.T) {
	c := newHaltedFleet(t, func(*topsv1.GcuResource) {})
	for name, test := range map[string]struct {
		group *Group
		want  string
	}{
		"contract 57: a gr by name and uuid":               {&Group{Kind: kindGcuResource, Name: "fleet"}, "Hello gcuResource(name:fleet, uuid:uid-fleet) controller=daemonupdater\n"},
		"contract 57: a gr that is gone by name":           {&Group{Kind: kindGcuResource, Name: "gone"}, "Hello gcuResource(name:gone, uuid:\"\") controller=daemonupdater\n"},
		"a DaemonSet by namespace and name":                {&Group{Kind: kindDaemonSet, Namespace: "apps", Name: "fleet"}, "Hello DaemonSet(name:fleet, namespace:apps) controller=daemonupdater\n"},
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
