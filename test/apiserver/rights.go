package apiserver

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// awaited counts the calls of AwaitRights.
var awaited atomic.Int64

// AwaitRights waits until the authorizer of the API server, which watches roles and bindings, knows those of a user
// that exist: it adds a last right, and waits for that.
func (s *Server) AwaitRights(t *testing.T, user string) {
	t.Helper()
	name := fmt.Sprintf("last-right-%d", awaited.Add(1))
	path := "/" + name
	c := s.Client(t, Admin)
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{path}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}},
	} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	s.AwaitRight(t, authorizationv1.SubjectAccessReviewSpec{User: user, NonResourceAttributes: &authorizationv1.NonResourceAttributes{Verb: "get", Path: path}})
}

// AwaitRight waits until the authorizer of the API server knows a right.
func (s *Server) AwaitRight(t *testing.T, right authorizationv1.SubjectAccessReviewSpec) {
	t.Helper()
	c := s.Client(t, Admin)
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: right}
		err := c.Create(ctx, review)
		return review.Status.Allowed, err
	})
	if err != nil {
		t.Fatalf("waiting for a right of %s: %v", right.User, err)
	}
}
