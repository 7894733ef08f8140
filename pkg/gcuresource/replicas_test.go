package gcuresource

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// lose lets an object of a component not exist.
func (obs *Observation) lose(name, kind, object string) {
	c := obs.component(name)
	for _, d := range c.Objects {
		if d.Ref.Kind == kind && d.Ref.Name == object {
			delete(c.Live, d.Ref)
		}
	}
	switch kind {
	case "Deployment":
		delete(c.Deployments, object)
	case "Job":
		delete(c.Jobs, object)
	}
}

func TestWhenReplicasRun(t *testing.T) {
	nightingale := topsv1.GcuResourceSpec{Nightingale: &topsv1.NightingaleSpec{}, GFD: &topsv1.BaseFields{}}
	volcano := topsv1.GcuResourceSpec{Volcano: &topsv1.VolcanoSpec{}}
	redis := func(o *Observation) *appsv1.DeploymentStatus {
		return &o.component("nightingale").Deployments["redis"].Status
	}
	for _, tc := range []struct {
		name    string
		spec    topsv1.GcuResourceSpec
		given   func(*Observation)
		word    string
		message string
	}{
		{"all replicas available at the newest template", nightingale, func(*Observation) {}, "Running", ""},
		{"a replica is missing", nightingale, func(o *Observation) { redis(o).AvailableReplicas = 0 }, "deploying",
			"waiting for Deployment enflame/redis (0 of 1 replicas available)"},
		{"the newest template was not seen yet", nightingale, func(o *Observation) { o.component("nightingale").Deployments["redis"].Generation = 2 },
			"upgrading", "waiting for Deployment enflame/redis (1 of 1 replicas available)"},
		{"a replica of the older template is left", nightingale, func(o *Observation) {
			*redis(o) = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 1, AvailableReplicas: 1}
		}, "upgrading", "5 of 6 pods at the newest revision; waiting for Deployment enflame/redis (0 of 1 replicas at the newest revision)"},
		{"the pod says what is wrong", nightingale, func(o *Observation) {
			redis(o).AvailableReplicas = 0
			c := o.component("nightingale")
			c.Pods = append(c.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{component.LabelName: "redis"}},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "redis",
					State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}}})
		}, "deploying", "waiting for Deployment enflame/redis (0 of 1 replicas available, redis: ImagePullBackOff)"},
		{"the Deployment says what is wrong", nightingale, func(o *Observation) {
			redis(o).AvailableReplicas = 0
			redis(o).Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "quota exceeded"}}
		}, "deploying", "waiting for Deployment enflame/redis (0 of 1 replicas available, quota exceeded)"},
		{"the Deployment gave up waiting", nightingale, func(o *Observation) {
			redis(o).AvailableReplicas = 0
			redis(o).Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
		}, "deploying", "waiting for Deployment enflame/redis (0 of 1 replicas available, ProgressDeadlineExceeded)"},
		{"an object is missing though every replica runs", nightingale, func(o *Observation) { o.lose("nightingale", "Service", "redis") },
			"deploying", "waiting for Service enflame/redis"},
		{"a Job is not complete", volcano, func(o *Observation) { o.component("volcano").Jobs["volcano-admission-init"].Status.Conditions = nil },
			"deploying", "waiting for Job volcano-system/volcano-admission-init (not complete)"},
		{"a Job gave up", volcano, func(o *Observation) {
			o.component("volcano").Jobs["volcano-admission-init"].Status.Conditions = []batchv1.JobCondition{
				{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "it failed too often"}}
		}, "failed", "Job volcano-system/volcano-admission-init failed: it failed too often: delete it when that is mended, then it is made again"},
		{"a Deployment is being deleted", nightingale, func(o *Observation) {
			o.component("nightingale").Deployments["redis"].DeletionTimestamp = &metav1.Time{Time: noon}
		}, "deploying", "waiting until the old Deployment is deleted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := newWorld(t, newGR(tc.spec), 1)
			for i := range obs.Components {
				obs.run(obs.Components[i].Name)
			}
			tc.given(obs)
			rs := obs.next().ResourceStatuses[0]
			if rs.Status != tc.word {
				t.Errorf("the status is %s, want %s", rs.Status, tc.word)
			}
			if diff := cmp.Diff(tc.message, rs.Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatReplicasHoldUp(t *testing.T) {
	spec := topsv1.GcuResourceSpec{Nightingale: &topsv1.NightingaleSpec{}, GFD: &topsv1.BaseFields{}}
	obs := newWorld(t, newGR(spec), 1)
	obs.run("nightingale")
	obs.component("nightingale").Deployments["mysql"].Status.AvailableReplicas = 0
	if diff := cmp.Diff([]string{"nightingale:", "gfd: (new) waiting for nightingale"}, told(Decide(obs, noon))); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	obs.component("nightingale").Deployments["mysql"].Status.AvailableReplicas = 1
	obs.lose("nightingale", "Deployment", "agentd")
	if diff := cmp.Diff([]string{"nightingale: Deployment", "gfd: (new) waiting for nightingale"}, told(Decide(obs, noon))); diff != "" {
		t.Errorf("a part that is missing comes at once, plan (-want +got):\n%s", diff)
	}
}

func TestWebhooksComeLastAndGoFirst(t *testing.T) {
	obs := newWorld(t, newGR(topsv1.GcuResourceSpec{Volcano: &topsv1.VolcanoSpec{}}), 1)
	webhooks := func(list []component.Desired) (n int) {
		for _, d := range list {
			if d.Ref.Webhook() {
				n++
			}
		}
		return n
	}
	apply := func() []component.Desired { return Decide(obs, noon).Steps[0].Apply }
	if first := apply(); webhooks(first) != 0 || first[0].Ref.Kind != "Namespace" {
		t.Errorf("applied first: %v", first)
	}
	obs.run("volcano")
	for _, d := range obs.component("volcano").Objects {
		if d.Ref.Webhook() {
			obs.lose("volcano", d.Ref.Kind, d.Ref.Name)
		}
	}
	obs.component("volcano").Deployments["volcano-scheduler"].Status.AvailableReplicas = 0
	if list := apply(); len(list) != 0 {
		t.Errorf("applied while a part does not run: %v", list)
	}
	obs.component("volcano").Deployments["volcano-scheduler"].Status.AvailableReplicas = 1
	if list := apply(); len(list) != 7 || webhooks(list) != 7 {
		t.Errorf("applied at last: %v", list)
	}
	gone := newWorld(t, newGR(topsv1.GcuResourceSpec{}), 1)
	gone.Owned = obs.Owned
	for _, o := range Decide(gone, noon).Delete {
		if !o.Ref.Webhook() {
			t.Errorf("%s goes before the webhooks", o.Ref)
		}
	}
	for _, o := range DecideTeardown(obs).Delete {
		if !o.Ref.Webhook() {
			t.Errorf("%s goes before the webhooks when the gr is deleted", o.Ref)
		}
	}
}
