package harness

import (
	"context"
	"strings"
	"testing"
	"time"
)

// Await waits until is returns nil, and logs how long that took. If it takes longer than patience, it
// logs what kubectl prints for each of the arguments, and ends the test.
func (c *Cluster) Await(ctx context.Context, t testing.TB, patience time.Duration, what string, is func() error, show ...[]string) {
	t.Helper()
	begin := time.Now()
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := Eventually(limited, is); err != nil {
		c.Show(ctx, t, show...)
		t.Fatalf("never: %s: %v", what, err)
	}
	t.Logf("%6.1fs  %s", time.Since(begin).Seconds(), what)
}

// Show logs what kubectl prints for each of the arguments.
func (c *Cluster) Show(ctx context.Context, t testing.TB, show ...[]string) {
	t.Helper()
	for _, args := range show {
		output, err := c.Kubectl(context.WithoutCancel(ctx), args...)
		t.Logf("kubectl %s\n%s%v", strings.Join(args, " "), output, err)
	}
}
