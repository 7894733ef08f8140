package askedby

import (
	"strings"
	"testing"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestAChangeIsReadAsItWasWritten(t *testing.T) {
	for _, user := range []string{"alice", "system:serviceaccount:ops:ci", "CN=Alice A. Smith,O=ops"} {
		a := Change{Time: noon, Verb: Approve, User: user}
		if got := Of(map[string]string{topsv1.AnnotationAskedBy: a.Value()}); got != a {
			t.Errorf("%q is read as %+v", a.Value(), got)
		}
	}
}

func TestWhatIsNoChangeIsNobodys(t *testing.T) {
	for _, value := range []string{"", "alice", "pause alice", "yesterday pause alice", "2026-03-01T12:00:00Z pause", "2026-03-01T12:00:00Z pause ",
		"2026-03-01T12:00:00Z pause a\nb", "2026-03-01T12:00:00Z pause " + strings.Repeat("a", maxUser+1)} {
		if got := Of(map[string]string{topsv1.AnnotationAskedBy: value}); got != (Change{}) {
			t.Errorf("%q is read as %+v", value, got)
		}
	}
	for _, user := range []string{"", "a\nb", strings.Repeat("a", maxUser+1)} {
		if got := (Change{Time: noon, Verb: Pause, User: user}).Value(); got != "" {
			t.Errorf("user %q is written as %q", user, got)
		}
	}
}

func TestVerbOfAChange(t *testing.T) {
	for _, c := range []struct{ key, before, after, want string }{
		{topsv1.AnnotationPaused, "", "true", Pause},
		{topsv1.AnnotationPaused, "true", "", Resume},
		{topsv1.AnnotationPaused, "true", "false", Resume},
		{topsv1.AnnotationResume, "a", "b", Resume},
		{topsv1.AnnotationApprovedWaves, "r/a", "r/a,r/b", Approve},
		{topsv1.AnnotationHold, "", "2026-03-01T12:00:00Z", Hold},
		{topsv1.AnnotationHold, "2026-03-01T12:00:00Z", "", Release},
		{topsv1.AnnotationTaskOverride, "", "skip:a_b_c:x", Skip},
		{topsv1.AnnotationRollbackTo, "", "previous", Rollback},
		{topsv1.AnnotationUpgradeOnly, "nodes=a", "", Upgrade},
		{topsv1.AnnotationPaused, "true", "true", ""},
		{"example.com/other", "a", "b", ""},
	} {
		if got := VerbOf(map[string]string{c.key: c.before}, map[string]string{c.key: c.after}); got != c.want {
			t.Errorf("%s from %q to %q is %q, want %q", c.key, c.before, c.after, got, c.want)
		}
	}
}
