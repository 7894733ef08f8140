// Package need handles missing prerequisites of tests, such as root, a program or an
// API server. Locally the test is skipped; in CI, where skipped tests go unnoticed, it
// fails.
package need

import (
	"os"
	"testing"
)

// Skip ends a test that cannot run here. what says what was not tested and what is
// needed. If the environment variable CI is set, the test fails; otherwise it is
// skipped.
func Skip(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal("NOT TESTED, in CI: " + what)
	}
	t.Skip("NOT TESTED: " + what)
}
