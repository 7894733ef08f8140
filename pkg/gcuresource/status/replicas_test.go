package status

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/test/world"
)

func TestWhenReplicasRun(t *testing.T) {
	nightingale := topsv1.GcuResourceSpec{Nightingale: &topsv1.NightingaleSpec{}, GFD: &topsv1.BaseFields{}}
	volcano := topsv1.GcuResourceSpec{Volcano: &topsv1.VolcanoSpec{}}
	redis := func(o *world.World) *appsv1.DeploymentStatus {
		return &o.Component("nightingale").Deployments["redis"].Status
	}
	for _, tc := range []struct {
		name    string
		spec    topsv1.GcuResourceSpec
		given   func(*world.World)
		word    string
		message string
	}{
		{"all replicas available at the newest template", nightingale, func(*world.World) {}, "Running", ""},
		{"a replica is missing", nightingale, func(o *world.World) { redis(o).AvailableReplicas = 0 }, "deploying",
			"waiting for Deployment enflame/redis (0 of 1 replicas available)"},
		{"the newest template was not seen yet", nightingale, func(o *world.World) { o.Component("nightingale").Deployments["redis"].Generation = 2 },
			"upgrading", "waiting for Deployment enflame/redis (1 of 1 replicas available)"},
		{"a replica of the older template is left", nightingale, func(o *world.World) {
			*redis(o) = appsv1.DeploymentStatus{ObservedGeneration: 1, Replicas: 2, UpdatedReplicas: 1, AvailableReplicas: 1}
		}, "upgrading", "5 of 6 pods at the newest revision; waiting for Deployment enflame/redis (0 of 1 replicas at the newest revision)"},
		{"the pod says what is wrong", nightingale, func(o *world.World) {
			redis(o).AvailableReplicas = 0
			c := o.Component("nightingale")
			c.Pods = append(c.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{component.LabelName: "redis"}},
				Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "redis",
					State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}}})
		}, "deploying", "waiting for Deployment enflame/redis (0 of 1 replicas available, redis: ImagePullBackOff)"},
		{"the Deployment says what is wrong", nightingale, func(o *world.World) {
			redis(o).AvailableReplicas = 0
			redis(o).Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: "quota exceeded"}}
		}, "deploying", "waiting for Deployment enflame/redis (0 of 1 replicas available, quota exceeded)"},
		{"the Deployment gave up waiting", nightingale, func(o *world.World) {
			redis(o).AvailableReplicas = 0
			redis(o).Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded"}}
		}, "deploying", "waiting for Deployment enflame/redis (0 of 1 replicas available, ProgressDeadlineExceeded)"},
		{"an object is missing though every replica runs", nightingale, func(o *world.World) { o.Lose("nightingale", "Service", "redis") },
			"deploying", "waiting for Service enflame/redis"},
		{"a Job is not complete", volcano, func(o *world.World) { o.Component("volcano").Jobs["volcano-admission-init"].Status.Conditions = nil },
			"deploying", "waiting for Job volcano-system/volcano-admission-init (not complete)"},
		{"a Job gave up", volcano, func(o *world.World) {
			o.Component("volcano").Jobs["volcano-admission-init"].Status.Conditions = []batchv1.JobCondition{
				{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "BackoffLimitExceeded", Message: "it failed too often"}}
		}, "failed", "Job volcano-system/volcano-admission-init failed: it failed too often: fix the cause, then delete it, and the operator recreates it"},
		{"a Deployment is being deleted", nightingale, func(o *world.World) {
			o.Component("nightingale").Deployments["redis"].DeletionTimestamp = &metav1.Time{Time: world.Noon}
		}, "deploying", "waiting until the old Deployment is deleted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obs := world.New(t, world.NewGR(tc.spec), 1)
			for i := range obs.Components {
				obs.Run(obs.Components[i].Name)
			}
			tc.given(obs)
			rs := next(obs).ResourceStatuses[0]
			if rs.Status != tc.word {
				t.Errorf("the status is %s, want %s", rs.Status, tc.word)
			}
			if diff := cmp.Diff(tc.message, rs.Message); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}
