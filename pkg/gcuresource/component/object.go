package component

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kinds whose state matters, not only their existence.
var (
	DaemonSetKind  = appsv1.SchemeGroupVersion.WithKind("DaemonSet")
	DeploymentKind = appsv1.SchemeGroupVersion.WithKind("Deployment")
	JobKind        = batchv1.SchemeGroupVersion.WithKind("Job")
)

// object is any Kubernetes object.
type object interface {
	runtime.Object
	metav1.Object
}

// Ref identifies an object; Namespace is empty for cluster-scoped kinds.
type Ref struct {
	schema.GroupVersionKind
	Namespace string
	Name      string
}

// RefOf identifies an object. Workloads read from a list have no kind, so it is set by type.
func RefOf(o object) Ref {
	ref := Ref{GroupVersionKind: o.GetObjectKind().GroupVersionKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
	switch o.(type) {
	case *appsv1.DaemonSet:
		ref.GroupVersionKind = DaemonSetKind
	case *appsv1.Deployment:
		ref.GroupVersionKind = DeploymentKind
	case *batchv1.Job:
		ref.GroupVersionKind = JobKind
	}
	return ref
}

// String returns the kind and the name for messages.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Kept reports whether an object stays in the cluster when its gr is deleted. Deleting a CRD
// would delete the objects of users (decision D16), deleting a namespace everything else in it,
// and deleting the password of a database would lock its files, which stay on their host.
func (r Ref) Kept() bool {
	return r.Kind == "CustomResourceDefinition" || r.Shared() || r.Installed()
}

// Installed reports whether an object is part of what an administrator installs (config/rbac): the
// status lists it, but the operator never writes it. Whoever may write roles and bindings has full
// access.
func (r Ref) Installed() bool { return r.Group == rbacv1.GroupName }

// Shared reports whether an object is created only if missing, and otherwise used as it is:
// users may bring their own namespace or password. The status does not list
// it (contract statement 49).
func (r Ref) Shared() bool { return r.Kind == "Namespace" || r.Kind == "Secret" }

// CreateOnly reports whether an existing object is never applied again: it is Shared, or a Job,
// whose template is immutable (AnnotationCreatedFrom).
func (r Ref) CreateOnly() bool { return r.Shared() || r.Kind == "Job" }

// Metadata returns an empty metadata object that Ref identifies.
func (r Ref) Metadata() *metav1.PartialObjectMetadata {
	m := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
	m.SetGroupVersionKind(r.GroupVersionKind)
	return m
}

// NewWorkload returns an empty object of a workload kind, nil for other kinds.
func (r Ref) NewWorkload() object {
	switch r.GroupVersionKind {
	case DaemonSetKind:
		return &appsv1.DaemonSet{}
	case DeploymentKind:
		return &appsv1.Deployment{}
	case JobKind:
		return &batchv1.Job{}
	}
	return nil
}

// Workload reports whether the object creates pods.
func (r Ref) Workload() bool {
	switch r.GroupVersionKind {
	case DaemonSetKind, DeploymentKind, JobKind:
		return true
	}
	return false
}

// Webhook reports whether the object makes the API server call pods of its component. It is
// created when those run and deleted before them: otherwise it would reject pods in the whole
// cluster (components.md section 1.10).
func (r Ref) Webhook() bool {
	return r.Kind == "MutatingWebhookConfiguration" || r.Kind == "ValidatingWebhookConfiguration"
}

// Rank is the order in which the objects of a component are applied: namespaces, what pods need,
// workloads, webhooks.
func (r Ref) Rank() int {
	switch {
	case r.Kind == "Namespace":
		return 0
	case r.Webhook():
		return 3
	case r.Workload():
		return 2
	}
	return 1
}

// Desired is one object as a gr requests it.
type Desired struct {
	Ref Ref
	// Object is what is applied: only the fields this operator owns. Empty values in stringData
	// of a Secret are replaced by random ones when it is created.
	Object *unstructured.Unstructured
	// Hash identifies the content of Object.
	Hash string
}
