package nodeupgrade

import (
	"testing"
	"time"

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
