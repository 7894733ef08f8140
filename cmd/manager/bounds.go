package main

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/denial"
)

// boundsTimeout limits the request of warnIfUnbounded.
const boundsTimeout = 10 * time.Second

// warnIfUnbounded logs an error if the admission policies that bound the manager do not apply to it:
// they name its namespace and account, and without them its role permits more than it needs. A
// ConfigMap that no GcuResource controls is refused by them; it is not stored.
func warnIfUnbounded(ctx context.Context, live client.Client, namespace string, log logr.Logger) {
	ctx, cancel := context.WithTimeout(ctx, boundsTimeout)
	defer cancel()
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "gcu-operator-unbounded"}}
	if err := live.Create(ctx, probe, client.DryRunAll); err == nil || denial.IsAlreadyExists(err) {
		log.Error(nil, "No admission policy bounds the rights of this manager. Install config/admission, and adjust the namespace and ServiceAccount in it if yours differ",
			"namespace", namespace)
	}
}
