package podreplace

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// A webhook may deny with the codes of a conflict and of an object that is gone. Taken for these, a denial would be repeated for
// ever and not be reported.
func TestADenialWithAnyCodeIsOne(t *testing.T) {
	for _, tt := range []struct {
		reason metav1.StatusReason
		code   int32
		says   string
		denied bool
	}{
		{metav1.StatusReasonConflict, 409, "the object has been modified", false},
		{metav1.StatusReasonNotFound, 404, `pods "a" not found`, false},
		{metav1.StatusReasonConflict, 409, `admission webhook "no.example.com" denied the request: not on Fridays`, true},
		{metav1.StatusReasonNotFound, 404, `admission webhook "no.example.com" denied the request: not on Fridays`, true},
		{metav1.StatusReasonAlreadyExists, 409, `admission webhook "no.example.com" denied the request: not on Fridays`, true},
		{metav1.StatusReasonTooManyRequests, 429, `admission webhook "no.example.com" denied the request: one per hour`, true},
		{metav1.StatusReasonServiceUnavailable, 503, `admission webhook "no.example.com" denied the request: the database is away`, true},
	} {
		answer := &apierrors.StatusError{ErrStatus: metav1.Status{Code: tt.code, Reason: tt.reason, Message: tt.says}}
		api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return answer },
			SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
				return answer
			},
		})
		pod := Pod("kube-system", "a", "uid", "7")
		deleted, err := Replacer{Client: api}.Delete(t.Context(), pod)
		if deleted || IsDenied(err) != tt.denied || (err != nil) != tt.denied {
			t.Errorf("%d %s: deleted %t, %v", tt.code, tt.says, deleted, err)
		}
		if err := (Replacer{Client: api}).Fence(t.Context(), pod, time.Time{}, "why"); IsDenied(err) != tt.denied || (err != nil) != tt.denied {
			t.Errorf("%d %s: fenced, %v", tt.code, tt.says, err)
		}
	}
}
