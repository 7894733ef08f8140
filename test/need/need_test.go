package need_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/topsops/gcu-operator/test/need"
)

// record is a test that records how it ended.
type record struct {
	testing.TB
	ended string
}

func (r *record) Helper()           {}
func (r *record) Skip(says ...any)  { r.end("skipped: " + fmt.Sprint(says...)) }
func (r *record) Fatal(says ...any) { r.end("failed: " + fmt.Sprint(says...)) }

func (r *record) end(how string) {
	r.ended = how
	runtime.Goexit()
}

func TestSkip(t *testing.T) {
	for _, tt := range []struct{ name, ci, want string }{
		{"skips locally, and says what was not tested", "", "skipped: NOT TESTED: cards need root"},
		{"fails in CI", "true", "failed: NOT TESTED, in CI: cards need root"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("CI", tt.ci)
			r := &record{TB: t}
			done := make(chan struct{})
			go func() {
				defer close(done)
				need.Skip(r, "cards need root")
			}()
			<-done
			if r.ended != tt.want {
				t.Errorf("it ended %q, want %q", r.ended, tt.want)
			}
		})
	}
}
