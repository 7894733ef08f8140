package gcuresource

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// has waits until an object exists, and reads it.
func (s *stage) has(o client.Object, namespace, name string) {
	s.t.Helper()
	s.until("waiting for "+name, func() string {
		if err := s.get(o, namespace, name); err != nil {
			return err.Error()
		}
		return ""
	})
}

// isGone waits until an object no longer exists.
func (s *stage) isGone(o client.Object, namespace, name string) {
	s.t.Helper()
	s.until("waiting until "+name+" is gone", func() string {
		if err := s.get(o, namespace, name); !apierrors.IsNotFound(err) {
			s.must(err)
			return "it exists"
		}
		return ""
	})
}

// available acts as the Deployment controller and makes every replica available.
func (s *stage) available(namespace string, names ...string) {
	s.t.Helper()
	for _, name := range names {
		d := &appsv1.Deployment{}
		s.has(d, namespace, name)
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, AvailableReplicas: 1}
		s.must(s.Status().Update(context.Background(), d))
	}
}

// complete acts as the Job controller and completes a Job.
func (s *stage) complete(namespace, name string) {
	s.t.Helper()
	job := &batchv1.Job{}
	s.has(job, namespace, name)
	s.must(finish(s, job, metav1.Now()))
}

// finish has a Job complete.
func finish(c client.Client, job *batchv1.Job, now metav1.Time) error {
	before := job.DeepCopy()
	job.Status = finished(now)
	err := c.Status().Patch(context.Background(), job, client.MergeFrom(before))
	if apierrors.IsInvalid(err) { // before Kubernetes 1.32
		job.Status.Conditions = job.Status.Conditions[1:]
		err = c.Status().Patch(context.Background(), job, client.MergeFrom(before))
	}
	return err
}

// finished returns the status of a completed Job.
func finished(now metav1.Time) batchv1.JobStatus {
	done := func(kind batchv1.JobConditionType) batchv1.JobCondition {
		return batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now}
	}
	return batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, Ready: ptr.To[int32](0), Terminating: ptr.To[int32](0),
		UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{},
		Conditions:              []batchv1.JobCondition{done(batchv1.JobSuccessCriteriaMet), done(batchv1.JobComplete)}}
}

// release acts as the controllers that protect volumes, and releases those being deleted.
func (s *stage) release() {
	s.t.Helper()
	ctx := context.Background()
	of := client.HasLabels{topsv1.LabelGcuResource}
	var claims corev1.PersistentVolumeClaimList
	var volumes corev1.PersistentVolumeList
	s.must(s.List(ctx, &claims, of))
	s.must(s.List(ctx, &volumes, of))
	var going []client.Object
	for i := range claims.Items {
		going = append(going, &claims.Items[i])
	}
	for i := range volumes.Items {
		going = append(going, &volumes.Items[i])
	}
	for _, o := range going {
		if o.GetDeletionTimestamp() != nil {
			o.SetFinalizers(nil)
			s.must(client.IgnoreNotFound(s.Update(ctx, o)))
		}
	}
}

// finalize acts as the namespace controller, and releases a namespace being deleted.
func (s *stage) finalize(name string) {
	s.t.Helper()
	clients, err := kubernetes.NewForConfig(testServer(s.t).As(apiserver.Admin))
	s.must(err)
	ctx := context.Background()
	namespace, err := clients.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return
	}
	s.must(err)
	namespace.Spec.Finalizers = nil
	_, err = clients.CoreV1().Namespaces().Finalize(ctx, namespace, metav1.UpdateOptions{})
	s.must(err)
}

// dropNamespace deletes a namespace with its Secrets when the test has ended.
func (s *stage) dropNamespace(name string) {
	s.after = append(s.after, func() {
		ctx := context.Background()
		s.must(s.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(name)))
		s.remove(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		s.finalize(name)
	})
}
