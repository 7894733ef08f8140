package nodeupgrade

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/test/simapi"
)

// watchedStatus is the status of objects, of which that of some pods may not be written.
type watchedStatus struct {
	client.SubResourceClient
	w *simulation
}

func (c watched) SubResource(name string) client.SubResourceClient {
	return watchedStatus{c.Client.SubResource(name), c.w}
}

func (s watchedStatus) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if _, is := object.(*corev1.Pod); is && s.w.sealed != "" {
		key := simapi.KeyOf(object)
		if s.w.componentOf(simapi.Get[*corev1.Pod](s.w.api, key)) == s.w.sealed {
			return apierrors.NewForbidden(simapi.Resource(key), object.GetName(), errors.New("its status is sealed"))
		}
	}
	return s.SubResourceClient.Patch(ctx, object, patch, opts...)
}

// Patch changes an object, unless that is a Node which may not be changed.
func (c watched) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
	if _, is := object.(*corev1.Node); is && c.w.fixed {
		c.w.refusals++
		return apierrors.NewForbidden(simapi.Resource(simapi.KeyOf(object)), object.GetName(), errors.New("nodes are fixed"))
	}
	return c.Client.Patch(ctx, object, patch, opts...)
}

// TestADeniedChangeOfTheNodeIsNamed: a webhook refuses to cordon the node, or to uncordon it in the end.
func TestADeniedChangeOfTheNodeIsNamed(t *testing.T) {
	for _, tt := range []struct{ at, says, ends string }{
		{"node_cordon", "nodes are fixed", "Done Succeeded"},
		{"node_soak", "the node is not released: ", "Done Succeeded"},
	} {
		s := tell(t, story{name: "a fixed node", components: []string{driver, toolkit, plugin}, tell: func(w *simulation) {
			w.publish(driver, "v2")
			w.fixed = tt.at == "node_cordon"
			w.order("op1", func(op *topsv1.NodeOperation) { op.Deadlines = topsv1.OperationDeadlines{SoakSeconds: 60} }, driver)
			w.until("the task", func(op *topsv1.OperationStatus) bool { return strings.HasSuffix(op.Task, tt.at) })
			w.fixed = true
			w.until("the denial", func(op *topsv1.OperationStatus) bool {
				return strings.Contains(op.Message, tt.says) && strings.Contains(op.Message, "nodes are fixed")
			})
			for end := w.now.Add(5 * time.Minute); w.now.Before(end); {
				w.step()
			}
			w.fixed = false
		}}, nil)
		if s.run.Violation != "" || s.end.How != tt.ends || s.end.Marks != "" || s.refusals < 5 || s.refusals > 30 {
			t.Errorf("%s: it ends %+v after %d refusals %s", tt.at, s.end, s.refusals, s.run.Violation)
		}
		if op := s.upgrade().Status.Operation; strings.Contains(op.Message, "fixed") {
			t.Errorf("%s: in the end it says: %s", tt.at, op.Message)
		}
	}
}

// TestADeniedDeletionDoesNotCountAgainstTheVersion: a webhook refuses to delete a pod. The operation
// waits, says so, and is deferred, or goes on when the pod may be deleted.
func TestADeniedDeletionDoesNotCountAgainstTheVersion(t *testing.T) {
	for _, tt := range []struct {
		name, component, waits, ends string
		forGood                      bool
	}{
		{"of the driver, for good", driver, operation.ReasonDeletionDenied, "Deferred DeletionDenied", true},
		{"of the toolkit, for good", toolkit, operation.ReasonDeletionDenied, "Deferred DeletionDenied", true},
		{"of a user of the device, for good", plugin, operation.ReasonDeviceInUse, "Deferred DeviceInUse", true},
		{"of the driver, for a while", driver, operation.ReasonDeletionDenied, "Done Succeeded", false},
		{"of a user of the device, for a while", plugin, operation.ReasonDeviceInUse, "Done Succeeded", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tell(t, story{name: tt.name, components: []string{driver, toolkit, plugin}, tell: func(w *simulation) {
				w.publish(driver, "v2")
				w.publish(toolkit, "v2")
				w.refused = tt.component
				w.order("op1", func(op *topsv1.NodeOperation) { op.Deadlines = topsv1.OperationDeadlines{SoakSeconds: 1} }, driver, toolkit)
				w.until("the denial", func(op *topsv1.OperationStatus) bool {
					return op.Reason == tt.waits && strings.Contains(op.Message, "denied by a webhook")
				})
				if !tt.forGood {
					for end := w.now.Add(time.Minute); w.now.Before(end); {
						w.step()
					}
					w.refused = ""
				}
			}}, nil)
			if s.run.Violation != "" || s.end.How != tt.ends || s.end.Marks != "" || s.refusals > 30 {
				t.Errorf("it ends %+v after %d refusals %s", s.end, s.refusals, s.run.Violation)
				for _, line := range s.run.History {
					t.Log(line)
				}
			}
		})
	}
}

// TestAFenceThatIsDeniedIsNamed: until the pod that it was to delete is fenced, the operation keeps the node, and says why.
func TestAFenceThatIsDeniedIsNamed(t *testing.T) {
	s := tell(t, story{name: "a denied fence", components: []string{driver, toolkit, plugin}, tell: func(w *simulation) {
		w.publish(driver, "v2")
		w.publish(toolkit, "v2")
		w.refused, w.sealed = driver, driver
		w.order("op1", func(op *topsv1.NodeOperation) { op.Deadlines = topsv1.OperationDeadlines{SoakSeconds: 1} }, driver, toolkit)
		w.until("the denial", func(op *topsv1.OperationStatus) bool {
			return op.Phase == topsv1.OperationReleasing && strings.Contains(op.Message, "the node is not released: ") && strings.Contains(op.Message, "its status is sealed")
		})
		for end := w.now.Add(5 * time.Minute); w.now.Before(end); {
			w.step()
		}
		if op := w.upgrade().Status.Operation; strings.Count(op.Message, "the node is not released: ") != 1 {
			w.run.Violation = "it says: " + op.Message
		}
		w.sealed = ""
	}}, nil)
	if s.run.Violation != "" || s.end.How != "Deferred DeletionDenied" || s.end.Marks != "" {
		t.Errorf("it ends %+v %s", s.end, s.run.Violation)
	}
	if op := s.upgrade().Status.Operation; strings.Contains(op.Message, "not released") {
		t.Errorf("in the end it says: %s", op.Message)
	}
}

// A cordon that comes too late is tried again at once, and is no denial.
func TestANodeThatHasChangedIsNoDenial(t *testing.T) {
	c := effects{denials: &denials{nodes: map[string]map[types.UID]denied{}}}
	o := &observation{upgrade: &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}
	e := operation.Effect{Kind: operation.Cordon, NodeUID: "node"}
	conflict := apierrors.NewConflict(corev1.Resource("nodes"), "n1", errors.New("it has changed"))
	if err := c.denied(t.Context(), o, e, conflict); !apierrors.IsConflict(err) || len(c.denials.of("n1")) != 0 {
		t.Errorf("%v, %v", err, c.denials.of("n1"))
	}
}

// The cache may not have seen yet that the pod ends.
func TestADenialIsForgottenWhenThePodIsDeleted(t *testing.T) {
	c := effects{denials: &denials{nodes: map[string]map[types.UID]denied{}}}
	o := &observation{upgrade: &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}}
	e := operation.Effect{Kind: operation.DeletePod, Pod: topsv1.NamedPod{NamespacedRef: topsv1.NamespacedRef{UID: "pod"}}}
	if err := c.denied(t.Context(), o, e, apierrors.NewForbidden(corev1.Resource("pods"), "p", errors.New("by a webhook"))); err == nil || len(c.denials.of("n1")) != 1 {
		t.Fatalf("%v, %v", err, c.denials.of("n1"))
	}
	if err := c.denied(t.Context(), o, e, nil); err != nil || len(c.denials.of("n1")) != 0 {
		t.Errorf("%v, %v", err, c.denials.of("n1"))
	}
}
