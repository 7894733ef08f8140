package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

func ota() map[string]string {
	return map[string]string{topsv1.AnnotationUpdateStrategy: "OTA", topsv1.AnnotationMaxUnavailable: "1"}
}

// allHave waits until PodNeedUpgrade of every pod has the given status.
func (f *fixture) allHave(ctx context.Context, want corev1.ConditionStatus) {
	f.t.Helper()
	f.eventually(ctx, func() error {
		pods, err := f.pods(ctx)
		if err != nil {
			return err
		}
		for i := range pods {
			if got := conditionOf(&pods[i]); got != want {
				return fmt.Errorf("%s of pod %s is %q, want %q", topsv1.PodNeedUpgrade, pods[i].Name, got, want)
			}
		}
		return nil
	})
}

// post sends a request to an agent and returns the status code and body. It retries if
// the agent reports a slow API server; without a response the code is 0 and the test
// fails.
func post(ctx context.Context, t *testing.T, url string) (code int, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	err := harness.Eventually(ctx, func() (err error) {
		if code, text, err = postOnce(ctx, url); err == nil && code == http.StatusServiceUnavailable {
			err = errors.New(text)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return code, text
}

func postOnce(ctx context.Context, url string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// Invalid requests are rejected; a valid one waits while the rollout is paused, and
// then runs.
// Contract 100.
func TestARequestOfANodeWaitsRunsAndIsAnswered(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "ota", ota())
	o := f.observe(ctx)
	f.allHave(ctx, corev1.ConditionFalse)
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Annotations[topsv1.AnnotationPaused] = "true"
		ds.Spec.Template.Spec.Containers[0].Image = "app:2"
	})
	f.allHave(ctx, corev1.ConditionTrue)
	pods, err := f.pods(ctx)
	if err != nil {
		t.Fatal(err)
	}
	own, other := &pods[0], &pods[1]
	s.startAgents(ctx, t, own.Spec.NodeName)
	agent := s.agents.Of(own.Spec.NodeName)
	url := func(pod string) string {
		return agent.URL + "/openyurt.io/v1/namespaces/default/pods/" + pod + "/upgrade"
	}
	before := f.uids(ctx)
	for pod, want := range map[string]int{"no_such..name": 400, "missing": 404, other.Name: 403} {
		if code, text := post(ctx, t, url(pod)); code != want {
			t.Errorf("POST for pod %q answers %d %q, want %d", pod, code, text, want)
		}
	}
	if code, text := post(ctx, t, url(own.Name)); code != 200 || text != "Start updating pod default/"+own.Name {
		t.Fatalf("POST answers %d %q", code, text)
	}
	s.taskReaches(ctx, f, own.Spec.NodeName, topsv1.TaskWaiting, "Paused")
	f.undisturbed(ctx, before)
	s.pullsAhead(ctx, f, agent.URL, own)
	s.keep(ctx, t, "ota.yaml", nil)
	s.withdraws(ctx, f, agent.URL, own.Spec.NodeName)
	var posts sync.WaitGroup
	for range 50 {
		posts.Go(func() {
			if code, text := post(ctx, t, url(own.Name)); code != 200 {
				t.Errorf("repeating the request returned %d %q", code, text)
			}
		})
	}
	posts.Wait()
	s.taskReaches(ctx, f, own.Spec.NodeName, topsv1.TaskWaiting, "Paused")
	f.change(ctx, func(ds *appsv1.DaemonSet) { delete(ds.Annotations, topsv1.AnnotationPaused) })
	s.taskReaches(ctx, f, own.Spec.NodeName, topsv1.TaskDone, "Replaced")
	delete(before, own.UID)
	f.undisturbed(ctx, before)
	deletedExactly(t, o, map[types.UID]bool{own.UID: true}) // only once for all requests
	s.requestForDeleted(ctx, f, own.Spec.NodeName, url)
}

// pullsAhead: the agent pulls the images of the newest revision, and the operator
// reports it in a pod condition, keeping the others.
func (s *stage) pullsAhead(ctx context.Context, f *fixture, agent string, pod *corev1.Pod) {
	f.t.Helper()
	if code, text := post(ctx, f.t, agent+"/openyurt.io/v1/namespaces/default/pods/"+pod.Name+"/imagepull"); code != 200 {
		f.t.Fatalf("imagepull answers %d %q", code, text)
	}
	f.eventually(ctx, func() error {
		var now corev1.Pod
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), &now); err != nil {
			return err
		}
		types := map[corev1.PodConditionType]corev1.PodCondition{}
		for _, c := range now.Status.Conditions {
			types[c.Type] = c
		}
		ready, need := types[topsv1.PodImageReady], types[topsv1.PodNeedUpgrade]
		if ready.Status != corev1.ConditionTrue || ready.Reason != topsv1.ReasonPullImageSuccess || ready.Message != need.Message ||
			need.Status != corev1.ConditionTrue || types[corev1.PodReady].Status != corev1.ConditionTrue {
			return fmt.Errorf("conditions of pod %s are %+v", pod.Name, now.Status.Conditions)
		}
		return nil
	})
	if !s.agents.Host(pod.Spec.NodeName).Pulled("app:2") {
		f.t.Error("the image was not pulled")
	}
}

// withdraws: a waiting request is withdrawn, and nothing is replaced.
func (s *stage) withdraws(ctx context.Context, f *fixture, agent, node string) {
	f.t.Helper()
	code, text := post(ctx, f.t, agent+"/v1/rollback")
	var answer struct{ State string }
	if err := json.Unmarshal([]byte(text), &answer); err != nil || code != 202 && (code != 200 || answer.State != "Withdrawn") { // 200: it is over already
		f.t.Fatalf("rollback answers %d %q", code, text)
	}
	s.taskReaches(ctx, f, node, topsv1.TaskWithdrawn, "Withdrawn")
	f.eventually(ctx, func() error {
		if code, text := post(ctx, f.t, agent+"/v1/rollback"); code != 409 {
			return fmt.Errorf("rollback of nothing answers %d %q", code, text)
		}
		return nil
	})
}

// requestForDeleted: a waiting request ends when its DaemonSet is deleted.
func (s *stage) requestForDeleted(ctx context.Context, f *fixture, node string, url func(pod string) string) {
	f.t.Helper()
	f.change(ctx, func(ds *appsv1.DaemonSet) {
		ds.Annotations[topsv1.AnnotationPaused] = "true"
		ds.Spec.Template.Spec.Containers[0].Image = "app:3"
	})
	f.allHave(ctx, corev1.ConditionTrue)
	pods, err := f.pods(ctx)
	if err != nil {
		f.t.Fatal(err)
	}
	for i := range pods {
		if pods[i].Spec.NodeName != node {
			continue
		}
		if code, text := post(ctx, f.t, url(pods[i].Name)); code != 200 {
			f.t.Fatalf("POST answers %d %q", code, text)
		}
	}
	s.taskReaches(ctx, f, node, topsv1.TaskWaiting, "Paused")
	if _, err := s.Kubectl(ctx, "delete", "daemonset", f.name); err != nil {
		f.t.Fatal(err)
	}
	s.taskReaches(ctx, f, node, topsv1.TaskFailed, "DaemonSetGone")
}

func (s *stage) taskReaches(ctx context.Context, f *fixture, node string, state topsv1.TaskState, reason string) {
	f.t.Helper()
	f.eventually(ctx, func() error {
		var upgrade topsv1.NodeUpgrade
		if err := s.Client.Get(ctx, client.ObjectKey{Name: node}, &upgrade); err != nil {
			return err
		}
		tasks := upgrade.Status.Tasks
		if len(tasks) == 0 || tasks[len(tasks)-1].State != state || tasks[len(tasks)-1].Reason != reason {
			return fmt.Errorf("tasks of node %s are %+v, want one %s because %s", node, tasks, state, reason)
		}
		return nil
	})
}

func TestLeavingOTARemovesTheConditions(t *testing.T) {
	s, ctx := enter(t)
	f := newDaemonSet(ctx, t, s, "leave", ota())
	f.setImage(ctx, "app:2")
	f.allHave(ctx, corev1.ConditionTrue)
	before := f.uids(ctx)
	f.change(ctx, func(ds *appsv1.DaemonSet) { ds.Annotations = nil })
	f.allHave(ctx, "")
	f.eventually(ctx, func() error {
		_, err := f.rollout(ctx)
		if client.IgnoreNotFound(err) == nil && err != nil {
			return nil
		}
		return fmt.Errorf("the DaemonRollout is still there (%w)", err)
	})
	f.undisturbed(ctx, before)
}
