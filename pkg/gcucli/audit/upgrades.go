package audit

import (
	"slices"
	"strings"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Upgrade is one upgrade in the record of a rollout: from a new target, limit or plan to the next one.
type Upgrade struct {
	// Revision of the rollout group; Spec is that of the gr, "" if not known.
	Revision string `json:"revision"`
	Spec     string `json:"spec,omitempty"`
	// Limit in status.limitedTo, "" for none. Plan is its UpgradePlan.
	Limit string `json:"limit,omitempty"`
	Plan  string `json:"plan,omitempty"`
	// Entries of the record, the oldest first.
	Entries []topsv1.RolloutRecordEntry `json:"entries"`
	// Until is when the next upgrade began, zero for the last.
	Until time.Time `json:"-"`
	// back is the revision that a rollback restores, "" if there is none or that is not known; turned is when it began.
	back   string
	turned time.Time
}

// Upgrades splits the record of a rollout into upgrades, the newest first. Entries from before the first start that is
// kept are an upgrade too, whose beginning is not.
func Upgrades(record []topsv1.RolloutRecordEntry) []Upgrade {
	var list []Upgrade
	for _, e := range record {
		if len(list) == 0 || begins(e) || e.Revision != list[len(list)-1].Revision && !list[len(list)-1].goesBack() {
			if len(list) > 0 {
				list[len(list)-1].Until = e.Time.Time
			}
			list = append(list, begun(e, list))
		}
		u := &list[len(list)-1]
		u.Entries = append(u.Entries, e)
	}
	slices.Reverse(list)
	return list
}

func begins(e topsv1.RolloutRecordEntry) bool {
	return e.Event == topsv1.RecordStarted || e.Event == topsv1.RecordLimited
}

// goesBack reports whether the upgrade is rolled back: what follows, at the revision before, is part of it.
func (u *Upgrade) goesBack() bool {
	return slices.ContainsFunc(u.Entries, func(e topsv1.RolloutRecordEntry) bool { return e.Event == topsv1.RecordRollingBack })
}

// noteRollback finds whether the upgrade is rolled back, and to which revision; dro may be nil.
func (u *Upgrade) noteRollback(dro *topsv1.DaemonRollout) {
	for i := range u.Entries {
		switch e := &u.Entries[i]; {
		case e.Event == topsv1.RecordRollingBack && u.turned.IsZero():
			u.turned = e.Time.Time
		case !u.turned.IsZero() && e.Revision != u.Revision && u.back == "":
			u.back = e.Revision
		}
	}
	if u.turned.IsZero() || u.back != "" || dro == nil || dro.Status.Rollback == nil || dro.Status.Rollback.From != u.Revision {
		return
	}
	u.back = dro.Status.Rollback.To
}

// covers reports whether work that began at a time for a revision is of the upgrade, and whether it goes back.
func (u *Upgrade) covers(revision string, began time.Time) (is, goesBack bool) {
	goesBack = u.back != "" && revision == u.back && !began.Before(u.turned)
	return (revision == u.Revision || goesBack) && u.includes(began), goesBack
}

// begun returns the upgrade that an entry begins, after others.
func begun(e topsv1.RolloutRecordEntry, before []Upgrade) Upgrade {
	u := Upgrade{Revision: e.Revision, Spec: e.Subject, Limit: e.Limit}
	if e.Event != topsv1.RecordStarted {
		u.Spec = ""
	}
	if e.Event == topsv1.RecordLimited && len(before) > 0 && before[len(before)-1].Revision == e.Revision {
		u.Spec = before[len(before)-1].Spec
	}
	u.Plan, _ = strings.CutPrefix(u.Limit, "plan=")
	if u.Plan == u.Limit {
		u.Plan = ""
	}
	return u
}

// Find returns the upgrade with a plan, or to a revision of the spec or of the rollout; the newest for "". It
// is false if none is kept.
func Find(list []Upgrade, revision, plan string) (Upgrade, bool) {
	i := slices.IndexFunc(list, func(u Upgrade) bool {
		return (plan == "" || u.Plan == plan) && (revision == "" || u.Revision == revision || u.Spec == revision)
	})
	if i < 0 {
		return Upgrade{}, false
	}
	return list[i], true
}

// began returns the time of the first entry.
func (u *Upgrade) began() time.Time { return u.Entries[0].Time.Time }

// hasStart reports whether the record has the beginning.
func (u *Upgrade) hasStart() bool { return begins(u.Entries[0]) }

// offline returns what the newest Complete in its record says about offline nodes, "" for none.
func (u *Upgrade) offline() string {
	said := ""
	for i := range u.Entries {
		if e := &u.Entries[i]; e.Event == topsv1.RecordComplete {
			said = e.Message
		}
	}
	return said
}

// lastEnd returns the time of the last Complete or RolledBack in its record, nil if there is none or the rollout was resumed
// since. Unlike in the state, a later halt does not matter: it has another cause.
func (u *Upgrade) lastEnd() *time.Time {
	var end *time.Time
	for i := range u.Entries {
		switch e := &u.Entries[i]; e.Event {
		case topsv1.RecordComplete, topsv1.RecordRolledBack:
			end = utc(&e.Time)
		case topsv1.RecordResumed:
			end = nil
		}
	}
	return end
}

// includes reports whether a time is within the upgrade.
func (u *Upgrade) includes(t time.Time) bool {
	return !t.Before(u.began()) && (u.Until.IsZero() || t.Before(u.Until))
}
