package ota_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota"
)

func TestPostShowsTheRequestInTheNodeUpgrade(t *testing.T) {
	s := newSite(t, sharedPlane(t), "post")
	pod := s.outdated("driver-x", nil)
	s.start()
	s.mustPost("driver-x")

	nodeUpgrade := s.nodeUpgrade()
	wantOwner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: s.node.Name, UID: s.node.UID}}
	if diff := cmp.Diff(wantOwner, nodeUpgrade.OwnerReferences); diff != "" {
		t.Errorf("owner (-want +got):\n%s", diff)
	}
	if len(nodeUpgrade.Status.Requests) != 1 {
		t.Fatalf("requests are %+v, want one", nodeUpgrade.Status.Requests)
	}
	got := nodeUpgrade.Status.Requests[0]
	want := topsv1.UpgradeRequest{
		ID: got.ID, Revision: "rev-2", RequestTime: got.RequestTime,
		DaemonSet: topsv1.NamespacedRef{Namespace: s.namespace, Name: "driver", UID: "ds-uid"},
		Pod:       topsv1.NamespacedRef{Namespace: s.namespace, Name: "driver-x", UID: pod.UID},
	}
	if diff := cmp.Diff(want, got); diff != "" || got.RequestTime.IsZero() {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if agent := nodeUpgrade.Status.Agent; agent == nil || agent.Version != "test" || !slices.Equal(agent.Capabilities, []string{"prepull"}) || agent.StartTime.IsZero() || agent.RestartsRuntime == nil || *agent.RestartsRuntime {
		t.Errorf("agent is %+v", agent)
	}
	if !slices.ContainsFunc(nodeUpgrade.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return f.Manager == ota.FieldManager && f.Subresource == "status" && f.Operation == metav1.ManagedFieldsOperationApply
	}) {
		t.Errorf("no field manager %s applied the status", ota.FieldManager)
	}
}

// There may be thousands of evicted pods, and of ones that a tenant bound to the node.
//
// Contract 100.
func TestPodsListsOnlyThisNode(t *testing.T) {
	s := newSite(t, sharedPlane(t), "pods")
	other := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "pods-other"}}
	s.create(other)
	s.outdated("here", nil)
	s.outdated("there", func(p *corev1.Pod) { p.Spec.NodeName = other.Name })
	s.outdated("evicted", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
	s.outdated("done", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	s.start()
	status, body := s.send(http.MethodGet, "/pods")
	var list corev1.PodList
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK {
		t.Fatalf("GET /pods: %d %q: %v", status, body, err)
	}
	if list.Kind != "PodList" || list.APIVersion != "v1" || len(list.Items) != 1 || list.Items[0].Name != "here" {
		t.Errorf("GET /pods is a %s %s with %d items", list.APIVersion, list.Kind, len(list.Items))
	}
}

func TestRestartAppliesTheJournalAgain(t *testing.T) {
	s := newSite(t, sharedPlane(t), "restart")
	s.outdated("driver-x", nil)
	stop := s.start()
	s.mustPost("driver-x")
	want := s.requests()
	s.wipe()
	s.until("the running agent shows the request again", func() bool { return len(s.requests()) == 1 })

	stop()
	s.wipe()
	s.start()
	s.until("the restarted agent shows the request again", func() bool { return len(s.requests()) == 1 })
	if diff := cmp.Diff(want, s.requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}

	if err := s.admin.Delete(t.Context(), s.nodeUpgrade()); err != nil {
		t.Fatal(err)
	}
	s.until("a deleted NodeUpgrade is made again", func() bool {
		list := &topsv1.NodeUpgradeList{}
		if err := s.admin.List(t.Context(), list, client.MatchingFields{"metadata.name": s.node.Name}); err != nil {
			t.Fatal(err)
		}
		return len(list.Items) == 1 && len(list.Items[0].Status.Requests) == 1
	})
}

// wipe empties the status of the NodeUpgrade, like a careless client.
func (s *site) wipe() {
	s.t.Helper()
	for {
		nodeUpgrade := s.nodeUpgrade()
		nodeUpgrade.Status = topsv1.NodeUpgradeStatus{}
		err := s.admin.Status().Update(s.t.Context(), nodeUpgrade)
		if err == nil {
			return
		} else if !apierrors.IsConflict(err) {
			s.t.Fatalf("wiping the status: %v", err)
		}
	}
}

func (s *site) journalFiles() []string {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.stateDir, "requests", "*.json"))
	if err != nil {
		s.t.Fatal(err)
	}
	return files
}

func TestTasksOfTheOperatorSurvive(t *testing.T) {
	s := newSite(t, sharedPlane(t), "tasks")
	s.outdated("driver-x", nil)
	s.outdated("driver-y", nil)
	s.start()
	s.mustPost("driver-x")
	first := s.requests()[0].ID
	s.answer(topsv1.UpgradeTask{RequestID: first, Name: "tasks_driver_replace", State: topsv1.TaskRunning, Message: "deleting"})
	want := s.nodeUpgrade().Status.Tasks

	s.mustPost("driver-y")
	nodeUpgrade := s.nodeUpgrade()
	if diff := cmp.Diff(want, nodeUpgrade.Status.Tasks); diff != "" || len(nodeUpgrade.Status.Requests) != 2 {
		t.Errorf("%d requests, tasks (-want +got):\n%s", len(nodeUpgrade.Status.Requests), diff)
	}

	s.answer(topsv1.UpgradeTask{RequestID: first, Name: "tasks_driver_replace", State: topsv1.TaskFailed, Message: "never ready"})
	s.mustPost("driver-x")
	nodeUpgrade = s.nodeUpgrade()
	if n := len(nodeUpgrade.Status.Requests); n != 3 || nodeUpgrade.Status.Requests[2].ID != first+"-2" {
		t.Errorf("after a failure a new POST shows %+v", nodeUpgrade.Status.Requests)
	}
	if len(nodeUpgrade.Status.Tasks) != 1 || nodeUpgrade.Status.Tasks[0].State != topsv1.TaskFailed {
		t.Errorf("tasks are %+v, want the failed one", nodeUpgrade.Status.Tasks)
	}
}

// expectDisconnected checks what an agent without an API server does.
func (s *site) expectDisconnected() {
	s.t.Helper()
	if status, body := s.post("driver-x"); status != http.StatusServiceUnavailable || !strings.Contains(body, "Nothing was recorded") {
		s.t.Errorf("POST without an API server: %d %q", status, body)
	}
	if status, body := s.send(http.MethodGet, "/pods"); status != http.StatusServiceUnavailable {
		s.t.Errorf("GET /pods without an API server: %d %q", status, body)
	}
	if status, _ := s.send(http.MethodGet, "/healthz"); status != http.StatusOK {
		s.t.Errorf("GET /healthz without an API server: %d", status)
	}
	if files := s.journalFiles(); len(files) != 0 {
		s.t.Errorf("the journal holds %v after a refusal", files)
	}
}

func TestLinkThatIsCutAtStartAndComesBack(t *testing.T) {
	plane := sharedPlane(t)
	s := newSite(t, plane, "link")
	s.outdated("driver-x", nil)
	link := newLink(t, plane.agent.Host)
	s.connect(link.config(plane.agent))
	s.start()
	s.expectDisconnected()

	link.up(t)
	s.until("the agent shows itself by its own effort", func() bool {
		list := &topsv1.NodeUpgradeList{}
		return s.admin.List(t.Context(), list, client.MatchingFields{"metadata.name": s.node.Name}) == nil && len(list.Items) == 1
	})
	s.mustPost("driver-x")

	link.down(t)
	if status, body := s.post("driver-x"); status != http.StatusServiceUnavailable {
		t.Errorf("POST over a cut link: %d %q", status, body)
	}
	if files := s.journalFiles(); len(files) != 1 {
		t.Errorf("the journal holds %v, want the request accepted before", files)
	}
	s.wipe()
	link.up(t)
	s.until("the request is submitted again", func() bool { return len(s.requests()) == 1 })
}
