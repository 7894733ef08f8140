package audit

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

// Input is what a report is made of.
type Input struct {
	// Fleet of the gr. What may not be read is empty, and named in NotShown.
	Fleet *display.Fleet
	// Revisions of the gr's spec that are kept, newest first; Plans are those for the gr.
	Revisions []display.Revision
	Plans     []topsv1.UpgradePlan
	NotShown  []string
}

// States of an upgrade.
const (
	Complete = "complete"
	// CompleteExceptOffline is that nodes were offline at the end, which are upgraded when they are back.
	CompleteExceptOffline = "complete except offline nodes"
	RolledBack            = "rolled back"
	Halted                = "halted"
	Superseded            = "superseded"
	Running               = "in progress"
)

// Report is what is known of one upgrade. Times are in UTC, to the second.
type Report struct {
	GcuResource string `json:"gcuResource"`
	Upgrade
	// State is complete, complete except offline nodes, rolled back, halted, superseded (another one came first) or in progress.
	State string `json:"state"`
	// Offline says how many nodes were offline at the end, "" for none.
	Offline string `json:"offline,omitempty"`
	// AskedBy is the user who asked for it, "" if that is not known.
	AskedBy string    `json:"askedBy,omitempty"`
	Began   time.Time `json:"began"`
	// Ended is absent before.
	Ended *time.Time `json:"ended,omitempty"`
	// Seconds from the beginning to the end, or to the time of the report.
	Seconds int64     `json:"seconds"`
	Time    time.Time `json:"time"`
	// Changes of the spec; absent if the specs are not kept.
	Changes []string `json:"changes,omitempty"`
	// Result of the plan, with its failed nodes.
	Result *topsv1.UpgradePlanStatus `json:"planResult,omitempty"`
	// Timeline of decisions, oldest first.
	Timeline []Moment `json:"timeline"`
	// Nodes are the pieces of work on nodes, by their beginning.
	Nodes []Work `json:"nodes"`
	// Missing says what is not in the report, and why.
	Missing []string `json:"missing,omitempty"`
}

// Of returns the report of an upgrade.
func Of(in *Input, u Upgrade) *Report {
	u.noteRollback(in.Fleet.Rollout)
	first, now := &u.Entries[0], in.Fleet.Now.UTC().Truncate(time.Second)
	r := &Report{GcuResource: in.Fleet.Resource.Name, Upgrade: u, AskedBy: first.By, Began: u.began().UTC(), Time: now, Timeline: []Moment{}, Nodes: []Work{},
		Missing: slices.Clone(in.NotShown)}
	if r.State, r.Ended = endOf(&u); r.State == Halted && goesOn(in.Fleet.Rollout, u.Revision) {
		r.State = Running
	}
	if r.State == CompleteExceptOffline {
		r.Offline = u.offline()
	}
	r.Seconds = int64(now.Sub(r.Began).Seconds())
	if r.Ended != nil {
		r.Seconds = int64(r.Ended.Sub(r.Began).Seconds())
	}
	if !u.hasStart() {
		r.Missing = append(r.Missing, "the beginning: the record of the rollout has room for its last entries only")
	}
	r.Changes = changesOf(in.Revisions, u.Spec)
	for i := range in.Plans {
		if p := &in.Plans[i]; u.Plan != "" && p.Name == u.Plan {
			r.Result = &p.Status
		}
	}
	r.Timeline = timelineOf(in.Fleet, &u)
	var unrecorded []string
	r.Nodes, unrecorded = workOf(in.Fleet, &u)
	r.Missing = append(r.Missing, unrecorded...)
	if gone := gone(in.Fleet, &u, r.Nodes); gone != "" {
		r.Missing = append(r.Missing, gone)
	}
	return r
}

// endOf returns the state of an upgrade, and when it ended, nil if it did not. What comes after the end, such as
// a hold, does not reopen it.
func endOf(u *Upgrade) (state string, ended *time.Time) {
	state = Running
	at := func(e topsv1.RolloutRecordEntry) *time.Time { t := e.Time.UTC(); return &t }
	for _, e := range u.Entries {
		switch e.Event {
		case topsv1.RecordComplete:
			state, ended = Complete, at(e)
			if e.Message != "" {
				state = CompleteExceptOffline
			}
		case topsv1.RecordRolledBack:
			state, ended = RolledBack, at(e)
		case topsv1.RecordHalted:
			state, ended = Halted, nil
		case topsv1.RecordResumed:
			state, ended = Running, nil
		}
	}
	if ended == nil && !u.Until.IsZero() {
		until := u.Until.UTC()
		return Superseded, &until
	}
	return state, ended
}

// goesOn reports whether a rollout, which may be nil, is at a revision and not halted: no entry of the record ends a halt that is
// over because enough nodes recovered. While a halted rollout is blocked, its condition Halted is False.
func goesOn(dro *topsv1.DaemonRollout, revision string) bool {
	return dro != nil && dro.Status.Revision == revision && meta.IsStatusConditionFalse(dro.Status.Conditions, topsv1.RolloutHalted) &&
		!meta.IsStatusConditionFalse(dro.Status.Conditions, topsv1.RolloutAccepted)
}

// changesOf returns how a revision of the spec differs from the one before, nil if one is not kept.
func changesOf(revisions []display.Revision, name string) []string {
	i := slices.IndexFunc(revisions, func(r display.Revision) bool { return name != "" && r.Name == name })
	if i < 0 {
		return nil
	}
	var list []string
	for _, c := range revisions[i].Changes {
		list = append(list, c.String())
	}
	return list
}
