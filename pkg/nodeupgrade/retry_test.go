package nodeupgrade

import (
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func TestAFailedPassIsRepeatedWithinHalfAMinute(t *testing.T) {
	limiter := options().RateLimiter
	if limiter == nil {
		t.Fatal("the default backs off for up to 1000 s")
	}
	for range 40 {
		if wait := limiter.When(reconcile.Request{}); wait > 30*time.Second {
			t.Fatalf("a failed pass is repeated after %s", wait)
		}
	}
}

// A webhook may deny with any code, also with that of an object that is gone.
func TestADenialIsNotTakenForAStaleCache(t *testing.T) {
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Message: `admission webhook "w" denied the request: no`}}
	if result, err := resultOf(t.Context(), 0, denied); err == nil {
		t.Errorf("it is tried again every %s, and nothing says so", result.RequeueAfter)
	}
}
