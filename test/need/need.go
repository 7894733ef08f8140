// Package need is how a test says that something is missing without which it cannot run:
// root, a program, an API server. For a developer the test is skipped; in CI, where nobody
// reads what was skipped, it fails.
package need

import (
	"os"
	"testing"
)

// Skip ends a test that cannot run here. What says what was not tested, and what it takes
// to test it. With the environment variable CI set, to anything, the test fails; without
// it, the test is skipped.
func Skip(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("NOT TESTED, in CI: " + what)
	}
	t.Skip("NOT TESTED: " + what)
}
