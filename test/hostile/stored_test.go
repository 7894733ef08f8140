package hostile

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeapi"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/recreation"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// What is stored for a recreation makes the manager create a gr, which is root on GCU nodes: it is
// obeyed only if the manager wrote it, and only as far as its author may go.
func TestAStoredGcuResourceIsObeyedOnlyWithTheRightsOfItsAuthor(t *testing.T) {
	server := cluster(t)
	admin, operator, tenant := server.Client(t, apiserver.Admin), server.Client(t, apiserver.Operator), server.Client(t, "tenant")
	ctx := t.Context()
	check(t, admin.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace, Name: "tenant"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edits-all"},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "tenant"}}}))
	check(t, admin.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "edits-all"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"*"}, Verbs: []string{"*"}}, {APIGroups: []string{topsv1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}}}}))
	startRecreator(t, server)

	attack := stored(t, "attack", authenticationv1.UserInfo{})
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace, Name: "gcu-upgrade-manager-attack",
		Labels: map[string]string{topsv1.LabelManagedBy: topsv1.ManagedBy, topsv1.LabelRecreation: "attack"}},
		Data: map[string]string{"gcuresource": string(attack.Spec.GcuResource.Raw), "replaces": "gone", "accepted": time.Now().UTC().Format(time.RFC3339)}}
	allowed(t, "create a ConfigMap in the namespace of the operator", func() error { return tenant.Create(ctx, configMap) })
	if err := tenant.Create(ctx, attack); !apierrors.IsForbidden(err) {
		t.Errorf("a tenant with all rights in the namespace of the operator stores a gr to create: %v", err)
	}
	check(t, operator.Create(ctx, stored(t, "unauthorized", authenticationv1.UserInfo{Username: "tenant", Groups: []string{"system:authenticated"}})))
	check(t, operator.Create(ctx, stored(t, "authorized", authenticationv1.UserInfo{Username: "root", Groups: []string{"system:masters"}})))

	check(t, wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := admin.Get(ctx, client.ObjectKey{Name: "authorized"}, &topsv1.GcuResource{})
		return err == nil, client.IgnoreNotFound(err)
	}))
	for _, name := range []string{"attack", "unauthorized"} {
		if err := admin.Get(ctx, client.ObjectKey{Name: name}, &topsv1.GcuResource{}); !apierrors.IsNotFound(err) {
			t.Errorf("GcuResource %s was created: %v", name, err)
		}
	}
	check(t, admin.Get(ctx, client.ObjectKey{Name: "unauthorized"}, &topsv1.GcuResourceRecreation{})) // nothing is lost
}

// allowed calls what a role allows until the API server knows the role.
func allowed(t *testing.T, what string, call func() error) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, patience, true, func(context.Context) (bool, error) {
		err := call()
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return true, err
	})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// stored returns a recreation of a gr that is gone.
func stored(t *testing.T, name string, author authenticationv1.UserInfo) *topsv1.GcuResourceRecreation {
	t.Helper()
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	r := recreation.Recreation{GcuResource: gr, Replaces: types.UID("gone"), Author: author, Accepted: time.Now()}
	object, err := r.Object()
	check(t, err)
	if !json.Valid(object.Spec.GcuResource.Raw) {
		t.Fatal("no gr is stored")
	}
	return object
}

// startRecreator runs the manager's Recreator with the manager's rights.
func startRecreator(t *testing.T, server *apiserver.Server) {
	t.Helper()
	mgr, err := ctrl.NewManager(server.As(apiserver.Operator), ctrl.Options{Scheme: server.Scheme, Metrics: metricsserver.Options{BindAddress: "0"}, Logger: logr.Discard()})
	check(t, err)
	live := server.Client(t, apiserver.Operator)
	recreator := &upgradeapi.Recreator{Client: live, Namespace: apiserver.Namespace, Access: upgradeapi.NewTokenAccess(live, clock.RealClock{}), Log: logr.Discard(), Clock: clock.RealClock{}}
	check(t, recreator.SetupWithManager(mgr))
	runUntilTheEnd(t, mgr)
}
