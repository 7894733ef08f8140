package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/askedby"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/fixture"
)

// diary is a group whose statuses are stored one after the other.
type diary struct {
	*world
	now      time.Time
	notifies bool
}

func newDiary() *diary {
	return &diary{world: worldOf([]memberAndPods{memberWith(fixture.DaemonSet("driver"))}), now: fixture.Epoch}
}

// pass stores the status of a decision, a minute later, and returns the new entries as EVENT[ SUBJECT][ nodes][ by USER].
func (d *diary) pass(in rollout.Input) []string {
	d.now = d.now.Add(time.Minute)
	in.Now = d.now
	decision := rollout.Plan(in)
	status := Status(d.Rollout.Status, 1, in, decision)
	Rollback{}.Remember(&status, d.State, in, decision)
	before := len(d.Rollout.Status.Record)
	Record(&status, d.State, in, decision, d.notifies)
	d.Rollout.Status = status
	said := []string{}
	for _, e := range status.Record[min(before, len(status.Record)):] {
		said = append(said, words(e))
	}
	return said
}

func words(e topsv1.RolloutRecordEntry) string {
	said := string(e.Event)
	if e.Subject != "" {
		said += " " + e.Subject
	}
	if e.Nodes > 0 {
		said += fmt.Sprintf(" %d", e.Nodes)
	}
	if e.By != "" {
		said += " by " + e.By
	}
	return said
}

// asks is a change by a user with the plugin, right before the next pass.
func (d *diary) asks(verb, user string) {
	d.Asked = askedby.Change{Time: d.now.Add(59 * time.Second), Verb: verb, User: user}
}

// annotates is a change of the DaemonRollout by a user with the plugin.
func (d *diary) annotates(verb, user string) {
	change := askedby.Change{Time: d.now.Add(59 * time.Second), Verb: verb, User: user}
	metav1.SetMetaDataAnnotation(&d.Rollout.ObjectMeta, topsv1.AnnotationAskedBy, change.Value())
}

func toward(revision string, in rollout.Input) rollout.Input {
	in.Revision, in.Ledger.Revision = revision, revision
	return in
}

func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if diff := cmp.Diff(slices.Clone(want), got); diff != "" && len(want)+len(got) > 0 {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestTheRecordTellsAnUpgradeFromTheStartToTheEnd(t *testing.T) {
	d := newDiary()
	old, updated := fixture.Planned("a", fixture.OldHash), fixture.Planned("a", fixture.NewHash)
	d.asks(askedby.Upgrade, "alice")
	equal(t, "a start", d.pass(inputWith(old)), "Started 1 by alice")
	equal(t, "the same again", d.pass(inputWith(old)))
	d.asks(askedby.Pause, "bob")
	equal(t, "a pause", d.pass(change(inputWith(old), pausedInput)), "Paused by bob")
	equal(t, "settings that are wrong for a while", append(d.pass(change(inputWith(old), blockedInput("InvalidPaused"))), d.pass(change(inputWith(old), pausedInput))...))
	equal(t, "unpaused by another program", d.pass(inputWith(old)), "Unpaused")
	equal(t, "the end", d.pass(inputWith(updated)), "Complete 1")
	equal(t, "a pod that flaps", append(d.pass(inputWith(fixture.PlannedBroken("a", fixture.NewHash))), d.pass(inputWith(updated))...))
	equal(t, "the next revision, by nobody known", d.pass(toward("r3", inputWith(old))), "Started 1")
}

func TestWhoAskedIsRatherUnknownThanWrong(t *testing.T) {
	d := newDiary()
	old := inputWith(fixture.Planned("a", fixture.OldHash))
	d.asks(askedby.Pause, "alice")
	d.pass(old)
	equal(t, "the verb of another change", d.pass(toward("r3", old)), "Started 1")
	d.asks(askedby.Upgrade, "alice")
	equal(t, "her own", d.pass(toward("r4", old)), "Started 1 by alice")
	equal(t, "a change after hers", d.pass(toward("r5", old)), "Started 1")
	d.asks(askedby.Upgrade, "alice")
	d.now = d.now.Add(time.Hour)
	equal(t, "a change long after hers", d.pass(toward("r6", old)), "Started 1")
}

func TestWhatPeopleAreNotifiedOfIsPending(t *testing.T) {
	d := newDiary()
	d.pass(halted())
	d.notifies = true
	d.pass(toward("r3", halted()))
	d.pass(inputWith(fixture.Planned("a", fixture.OldHash)))
	d.pass(inputWith(fixture.Planned("a", fixture.NewHash)))
	var pending []string
	for _, e := range d.Rollout.Status.Record {
		if e.Pending {
			pending = append(pending, string(e.Event)+" "+e.Revision)
		}
	}
	equal(t, "what happened since there are notifications", pending, "Complete r2")
}

func TestAnotherLimitIsAnotherBeginning(t *testing.T) {
	d := newDiary()
	in := inputWith(fixture.Planned("a", fixture.OldHash))
	d.pass(in)
	d.asks(askedby.Upgrade, "alice")
	in.Policy.Plan, in.Policy.PlanVersion = "monday", "monday uid/1"
	equal(t, "a plan", d.pass(in), "Limited 1 by alice")
	if e := d.Rollout.Status.Record[1]; e.Limit != "plan=monday" {
		t.Errorf("the limit is %q", e.Limit)
	}
	equal(t, "the same plan", d.pass(in))
	in.Policy.Plan, in.Policy.PlanVersion = "", ""
	equal(t, "no plan", d.pass(in), "Limited 1")
}

func TestTheRecordHasApprovals(t *testing.T) {
	d := newDiary()
	in := inputWith(fixture.Planned("a", fixture.OldHash), fixture.Planned("b", fixture.OldHash))
	in.Policy = rollout.Policy{Waves: []rollout.Wave{{Name: "main", Manual: true}}, Approved: map[string]bool{}}
	equal(t, "a wave", d.pass(in), "Started 2", "AwaitingApproval main 2")
	equal(t, "it still waits", d.pass(in))
	d.annotates(askedby.Approve, "carol")
	in.Policy.Approved = map[string]bool{"main": true}
	equal(t, "its approval", d.pass(in), "Approved main by carol")
	equal(t, "approved once", d.pass(in))
	in.Policy.Approved = map[string]bool{}
	equal(t, "the wave at another revision", d.pass(toward("r3", in)), "Started 2", "AwaitingApproval main 2")
}

func TestTheRecordHasTheApprovalOfABatchThatIsGivenWhileATaskIsAwaited(t *testing.T) {
	d := newDiary()
	in := inputWith(fixture.Planned("a", fixture.OldHash), fixture.Planned("b", fixture.OldHash))
	in.Policy = rollout.Policy{Plan: "plan", PlanVersion: "uid/2", Batches: []rollout.Batch{{Name: "one", Manual: true}}, Approved: map[string]bool{}}
	approval := rollout.BatchApproval("plan/one", "plan=uid/2")
	taskBefore(topsv1.ReasonAwaitingGlobalTask)(&in)
	equal(t, "a batch", d.pass(in)[1:], "AwaitingApproval "+approval+" 2")
	d.annotates(askedby.Approve, "carol")
	in.Policy.Approved = map[string]bool{approval: true}
	equal(t, "its approval", d.pass(in), "Approved "+approval+" by carol")
	in.Beforehand = nil
	equal(t, "approved once", d.pass(in))
}

// The name of a batch may not fit: it is shortened so that its approval is found, and none of an earlier version of the plan.
func TestTheRecordHasTheApprovalOfALongName(t *testing.T) {
	d := newDiary()
	in := inputWith(fixture.Planned("a", fixture.OldHash), fixture.Planned("b", fixture.OldHash))
	batch := strings.Repeat("b", 50)
	in.Policy = rollout.Policy{Plan: strings.Repeat("p", 100), PlanVersion: "uid/2", Batches: []rollout.Batch{{Name: batch, Manual: true}}, Approved: map[string]bool{}}
	part := in.Policy.Plan + "/" + batch
	approved, earlier := rollout.BatchApproval(part, "plan=uid/2"), rollout.BatchApproval(part, "plan=uid/1")
	short := strings.Repeat("p", 61) + "…" + approved[len(approved)-64:]
	equal(t, "a batch", d.pass(in)[1:], "AwaitingApproval "+short+" 2")
	in.Policy.Approved = map[string]bool{earlier: true, "main": true}
	equal(t, "an approval of the plan before it was edited", d.pass(in))
	in.Policy.Approved = map[string]bool{earlier: true, approved: true}
	equal(t, "its approval", d.pass(in), "Approved "+short)
	in.Policy.PlanVersion = "uid/3"
	again := rollout.BatchApproval(part, "plan=uid/3")
	equal(t, "the plan is edited", d.pass(in)[1:], "AwaitingApproval "+strings.Repeat("p", 61)+"…"+again[len(again)-64:]+" 2")
}

func TestTheRecordHasHoldsFailuresAndHalts(t *testing.T) {
	d := newDiary()
	held := fixture.Planned("c", fixture.OldHash)
	held.Holds = []daemonset.Hold{{By: daemonset.ByAdministrator, User: "dave", Message: "a training run"}}
	equal(t, "a hold", d.pass(inputWith(held)), "Started 1", "Held 1")
	if e := d.Rollout.Status.Record[1]; !strings.Contains(e.Message, "dave") || !strings.Contains(e.Message, "a training run") {
		t.Errorf("who holds a node, and why, is not in %q", e.Message)
	}
	equal(t, "settings that are wrong release nobody", d.pass(change(inputWith(held), blockedInput("InvalidPaused"))))
	equal(t, "a release", d.pass(inputWith(fixture.Planned("c", fixture.OldHash))), "Released")
	equal(t, "a halt", d.pass(halted()), "NodesFailed a, b 2", "Halted 2")
	equal(t, "it stays halted", d.pass(halted()))
	equal(t, "settings that are wrong end no halt", append(d.pass(change(halted(), blockedInput("InvalidPaused"))), d.pass(halted())...))
	d.annotates(askedby.Resume, "erin")
	resumed := inputWith(fixture.Planned("a", fixture.NewHash))
	resumed.Resume = "again"
	equal(t, "a resume", d.pass(resumed), "Resumed 2 by erin", "Complete 1")
}

func TestTheRecordHasRollbacks(t *testing.T) {
	d := newDiary()
	d.pass(inputWith(fixture.Planned("a", fixture.OldHash)))
	in := inputWith(fixture.Planned("a", fixture.NewHash))
	in.Now = d.now
	after := *d.Rollout.Status.DeepCopy()
	after.Rollback = &topsv1.RolloutRollback{From: "r2", To: "r1", Time: metav1.NewTime(d.now), Message: "back to r1"}
	record := func() {
		Record(&after, d.State, in, rollout.Plan(in), false)
		d.Rollout.Status = *after.DeepCopy()
	}
	record()
	after.Revision, after.Rollback.RestoredTime = "r1", &metav1.Time{Time: d.now}
	record()
	after.Rollback.CompletedTime = &metav1.Time{Time: d.now}
	record()
	var said []string
	for _, e := range after.Record {
		said = append(said, words(e))
	}
	equal(t, "a rollback", said, "Started 1", "RollingBack r1", "RolledBack r1")
}

// What matters most stays longest, whatever else happens, and it all fits into the bound.
func TestTheRecordIsBounded(t *testing.T) {
	d := newDiary()
	d.pass(inputWith(fixture.Planned("a", fixture.OldHash)))
	long := strings.Repeat("m", 4000)
	failing := func(i int) rollout.Input {
		in := inputWith(fixture.Planned("c", fixture.OldHash))
		in.Ledger.Touched = 1
		in.Ledger.Failures = []rollout.Failure{{Node: strings.Repeat("n", 250) + fmt.Sprint(i), Reason: rollout.ReasonCrashLooping, Message: long, Since: d.now}}
		return in
	}
	for i := range 3 * maxEntries {
		d.pass(failing(i))
	}
	record := d.Rollout.Status.Record
	if len(record) != maxEntries || record[0].Event != topsv1.RecordStarted {
		t.Errorf("%d entries, the first is %s", len(record), words(record[0]))
	}
	for i := range 3 * maxEntries {
		d.asks(askedby.Upgrade, strings.Repeat("u", 256))
		d.pass(toward(fmt.Sprintf("%064d", i), inputWith(fixture.Planned("a", fixture.OldHash))))
	}
	held := fixture.Planned("a", fixture.OldHash)
	held.Holds = []daemonset.Hold{{By: daemonset.ByAdministrator, Message: long}}
	in := toward(d.Rollout.Status.Revision, inputWith(held))
	equal(t, "a hold in a full record", d.pass(in))
	if last := d.Rollout.Status.Record[maxEntries-1]; last.Event != topsv1.RecordHeld {
		t.Errorf("the last entry is %s", words(last))
	}
	before := d.Rollout.Status.DeepCopy()
	d.pass(in)
	if diff := cmp.Diff(before.Record, d.Rollout.Status.Record); diff != "" {
		t.Errorf("the record does not come to rest (-before +after):\n%s", diff)
	}
}

func TestTheRecordStaysBelow40KiB(t *testing.T) {
	r := recorder{before: &topsv1.DaemonRolloutStatus{}, after: &topsv1.DaemonRolloutStatus{Revision: strings.Repeat("r", 64)}, now: fixture.Epoch}
	for i := range 2 * maxEntries {
		r.changes = []askedby.Change{{Time: fixture.Epoch.Add(time.Duration(i) * time.Second), Verb: askedby.Upgrade, User: strings.Repeat("u", 256)}}
		r.add(entry{event: topsv1.RecordAwaitingApproval, subject: strings.Repeat("s", 4000), limit: strings.Repeat("l", 4000), message: strings.Repeat("m", 4000), nodes: 1 << 30, verbs: []string{askedby.Upgrade}})
	}
	data, err := json.Marshal(r.after.Record)
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 40<<10 || len(r.after.Record) != maxEntries {
		t.Errorf("%d entries take %d bytes", len(r.after.Record), len(data))
	}
}
