// Package askedby is the annotation asked-by: who asked for the latest change by hand of an object. It is
// what the person's own program wrote, and with the policies of config/admission no other name than that of the
// user is accepted from those who may only operate. The audit log of the API server is the proof.
package askedby

import (
	"strings"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Verbs of a Change. They are those of the role gcu-operate, and of what needs update.
const (
	Upgrade  = "upgrade"
	Rollback = "rollback"
	Pause    = "pause"
	Resume   = "resume"
	Approve  = "approve"
	Hold     = "hold"
	Release  = "release"
	Retry    = "retry"
	Skip     = "skip"
	Undo     = "undo"
	Abort    = "abort"
)

// maxUser bounds the name of a user, in bytes. A longer one is left out: cut off, it could be the name of another user.
const maxUser = 256

// Change is one change that a user asked for; zero if the user is not known.
type Change struct {
	Time time.Time
	Verb string
	User string
}

// Value returns the annotation's value for a change, "" if it cannot be expressed: without a verb or a user, or
// with a name that is too long or has control characters.
func (c Change) Value() string {
	if c.Verb == "" || c.User == "" || len(c.User) > maxUser || strings.ContainsFunc(c.User, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return ""
	}
	return c.Time.UTC().Format(time.RFC3339) + " " + c.Verb + " " + c.User
}

// Of reads the annotation of an object. It returns zero if the annotation is missing or malformed.
func Of(annotations map[string]string) Change {
	parts := strings.SplitN(annotations[topsv1.AnnotationAskedBy], " ", 3)
	if len(parts) < 3 {
		return Change{}
	}
	c := Change{Verb: parts[1], User: parts[2]}
	var err error
	if c.Time, err = time.Parse(time.RFC3339, parts[0]); err != nil || c.Value() == "" {
		return Change{}
	}
	return c
}

// VerbOf returns how the annotations of an object that are written by hand changed, "" if they did not.
func VerbOf(before, after map[string]string) string {
	for _, rule := range rules {
		was, is := before[rule.key], after[rule.key]
		if was != is {
			return rule.verb(is)
		}
	}
	return ""
}

// rules say which verb a new value of an annotation is, "" for a removed one.
var rules = []struct {
	key  string
	verb func(value string) string
}{
	{topsv1.AnnotationRollbackTo, always(Rollback)},
	{topsv1.AnnotationUpgradePlan, always(Upgrade)},
	{topsv1.AnnotationUpgradeOnly, always(Upgrade)},
	{topsv1.AnnotationPaused, func(value string) string {
		if strings.EqualFold(value, "true") {
			return Pause
		}
		return Resume
	}},
	{topsv1.AnnotationResume, always(Resume)},
	{topsv1.AnnotationApprovedWaves, always(Approve)},
	{topsv1.AnnotationHold, func(value string) string {
		if value != "" {
			return Hold
		}
		return Release
	}},
	{topsv1.AnnotationTaskOverride, func(value string) string {
		verb, _, _ := strings.Cut(value, ":")
		return verb
	}},
}

func always(verb string) func(string) string { return func(string) string { return verb } }
