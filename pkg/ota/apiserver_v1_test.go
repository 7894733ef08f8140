package ota_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// component creates a DaemonSet under OTA, its newest revision rev-2, and its outdated pod
// on this node.
func (s *site) component(name string) *corev1.Pod {
	s.t.Helper()
	labels := map[string]string{"app": name}
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Annotations: map[string]string{topsv1.AnnotationUpdateStrategy: "OTA"}},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels}, UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "r/" + name + ":2"}}}},
		},
	}
	s.create(ds)
	yes := true
	owner := []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: name, UID: ds.UID, Controller: &yes}}
	template, err := json.Marshal(map[string]any{"spec": map[string]any{"template": ds.Spec.Template}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.create(&appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name + "-rev-2", OwnerReferences: owner}, Revision: 2, Data: runtime.RawExtension{Raw: template},
	})
	return s.outdated(name+"-x", func(p *corev1.Pod) { p.OwnerReferences = owner })
}

// sendJSON posts a body to a path below /v1.
func (s *site) sendJSON(path, body string, into any) int {
	s.t.Helper()
	response, err := http.Post(s.endpoint+path, "application/json", bytes.NewBufferString(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		s.t.Fatalf("POST %s: %s: %v", path, response.Status, err)
	}
	return response.StatusCode
}

func TestAnOperationAndAHoldWithTheRightsOfAnAgent(t *testing.T) {
	s := newSite(t, sharedPlane(t), "v1")
	s.component("driver")
	s.component("toolkit")
	s.start()
	status, body := s.send(http.MethodGet, "/v1/status")
	var st response.Status
	if err := json.Unmarshal([]byte(body), &st); err != nil || status != http.StatusOK || len(st.Components) != 2 || st.Components[0].Available == nil || st.Components[0].Available.Version != "2" {
		t.Fatalf("status: %d %s, %v", status, body, err)
	}
	var o response.Operation
	if code := s.sendJSON("/v1/upgrade", "{}", &o); code != http.StatusAccepted || o.State != request.Waiting {
		t.Fatalf("upgrade: %d %+v", code, o)
	}
	requests := s.requests()
	if len(requests) != 2 || requests[0].Operation != o.ID || requests[1].Operation != o.ID {
		t.Errorf("requests %+v, want two of operation %s", requests, o.ID)
	}
	var hold response.Hold
	if code := s.sendJSON("/v1/hold", `{"message":"surgery"}`, &hold); code != http.StatusOK || hold.Offline != "" {
		t.Errorf("hold: %d %+v", code, hold)
	}
	if agent := s.nodeUpgrade().Status.Agent; agent.Hold == nil || agent.Hold.Message != "surgery" || !agent.Hold.Since.Equal(&hold.Hold.Since) {
		t.Errorf("status.agent is %+v", agent)
	}
	if code := s.sendJSON("/v1/release", "", &hold); code != http.StatusOK || s.nodeUpgrade().Status.Agent.Hold != nil {
		t.Errorf("release: %d, status.agent is %+v", code, s.nodeUpgrade().Status.Agent)
	}

	var tasks []topsv1.UpgradeTask
	for _, r := range requests {
		tasks = append(tasks, topsv1.UpgradeTask{RequestID: r.ID, Name: "v1_x_replace", State: topsv1.TaskDone})
	}
	news := make(chan string, 1)
	go func() {
		_, body := s.send(http.MethodGet, "/v1/operations/"+o.ID+"?wait=15s")
		news <- body
	}()
	s.answer(tasks...)
	if err := json.Unmarshal([]byte(<-news), &o); err != nil || o.State != request.Done {
		t.Errorf("who waits is told %+v, %v", o, err)
	}
}

func TestARequestOverACutLinkIsSentLater(t *testing.T) {
	plane := sharedPlane(t)
	s := newSite(t, plane, "v1-link")
	s.component("driver")
	link := newLink(t, plane.agent.Host)
	s.connect(link.config(plane.agent))
	link.up(t)
	s.start()
	s.until("the agent has seen its pods", func() bool {
		var st response.Status
		_, body := s.send(http.MethodGet, "/v1/status")
		return json.Unmarshal([]byte(body), &st) == nil && st.Connected && len(st.Components) == 1
	})
	link.down(t)
	var o response.Operation
	if code := s.sendJSON("/v1/components/driver/upgrade", "{}", &o); code != http.StatusAccepted || o.State != request.Queued || o.Offline != "queued" {
		t.Fatalf("over a cut link: %d %+v", code, o)
	}
	if status, _ := s.post("driver-x"); status != http.StatusServiceUnavailable {
		t.Errorf("OpenYurt's path over a cut link: %d", status)
	}
	if status, body := s.send(http.MethodGet, "/pods"); status != http.StatusOK || !bytes.Contains([]byte(body), []byte("driver-x")) {
		t.Errorf("GET /pods over a cut link: %d %s", status, body)
	}
	link.up(t)
	s.until("the operator is told", func() bool {
		requests := s.requests()
		return len(requests) == 1 && requests[0].Operation == o.ID
	})
}
