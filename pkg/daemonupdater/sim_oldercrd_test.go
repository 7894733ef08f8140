package daemonupdater

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/test/fixture"
	"github.com/topsops/gcu-operator/test/simapi"
)

// A CRD that is replaced by an older one while managers run, as when a GitOps tool applies the chart
// of before: the API server drops the fields that it lacks from what is written and read. A manager
// does not start with such a CRD, and ends when it finds one.

type simCRDs struct {
	crds *rand.Rand // nil in a seed in which the CRDs stay
	// whole is what etcd has of objects of which the API server hides a part.
	whole map[simapi.Key]client.Object
	// found: the managers have ended, and do not start.
	found bool
}

// simOlderFields are fields that older CRDs do not have.
var simOlderFields = simapi.Schema{
	simRollouts: {"status.inFlight", "status.inFlight[].podUID", "status.inFlight[].podVersion", "status.inFlight[].operation", "status.inFlight[].uid",
		"status.queued", "status.queued[].turn", "status.failed", "status.failed[].targets", "status.pinned", "status.settled", "status.waves"},
	simUpgrades: {"spec.operation.granted", "spec.operation.abort", "spec.operation.nodeUID", "status.operation.tasks", "status.operation.held", "status.operation.granted"},
}

func newSimCRDs(seed uint64) (c simCRDs) {
	if rng := rand.New(rand.NewPCG(seed, 14)); rng.IntN(3) == 0 {
		c.crds = rng
	}
	return c
}

// replaceCRDs replaces the CRDs by older ones now and then, and puts them back later. A manager notices within
// 45 s, or when it starts.
func (w *simWorld) replaceCRDs() {
	if w.crds == nil || w.api.Schema != nil || w.managersAway() || w.crds.IntN(60) > 0 {
		return
	}
	fields := simapi.Schema{}
	for range 1 + w.crds.IntN(3) {
		kind := simPick(w.crds, simRollouts, simUpgrades)
		fields[kind] = append(fields[kind], simPick(w.crds, simOlderFields[kind]...))
	}
	w.olderCRDs(fields)
	back := time.Duration(2+w.crds.IntN(60)) * time.Minute
	w.later(time.Duration(w.crds.IntN(45))*time.Second, func() { w.findOlderCRDs(back) })
	w.later(back, w.newerCRDs)
}

// olderCRDs takes fields away from what is read and written. Watches do not show that.
func (w *simWorld) olderCRDs(fields simapi.Schema) {
	w.say("the CRDs are replaced by older ones, without %v", fields)
	w.api.Schema, w.whole = fields, map[simapi.Key]client.Object{}
	for kind := range fields {
		for _, key := range w.api.Keys[kind] {
			object := w.api.Objects[key]
			if pruned, dropped := fields.Prune(object); len(dropped) > 0 {
				w.whole[key] = object
				w.serves(key, pruned)
			}
		}
	}
}

// stored returns an object as it is stored, also what the API server hides; nil if there is none.
func (w *simWorld) stored(key simapi.Key) client.Object {
	served := w.api.Objects[key]
	if whole := w.whole[key]; served != nil && whole != nil && whole.GetResourceVersion() == served.GetResourceVersion() {
		return whole
	}
	return served
}

// serves has the API server serve another part of an object, in the same version.
func (w *simWorld) serves(key simapi.Key, object client.Object) {
	w.api.Objects[key] = object
	if u, ok := object.(*topsv1.NodeUpgrade); ok && w.ops != nil {
		w.ops.before[key.Name] = u
	}
}

// newerCRDs puts the CRDs back. What was not written since is whole again.
func (w *simWorld) newerCRDs() {
	w.say("the CRDs are put back")
	w.api.Schema = nil
	for _, key := range slices.SortedFunc(maps.Keys(w.whole), simapi.CompareKeys) {
		if stored := w.stored(key); stored == w.whole[key] {
			w.serves(key, stored)
		}
	}
	w.whole, w.found = nil, false
	for _, m := range w.managers {
		m.die()
	}
}

// findOlderCRDs ends the managers until the CRDs are put back.
func (w *simWorld) findOlderCRDs(back time.Duration) {
	if w.api.Schema == nil || w.found {
		return
	}
	w.found, w.away = true, w.now.Add(back)
	w.say("the managers find the CRDs older, and end until %s", w.away.Sub(fixture.Epoch))
	for _, m := range w.managers {
		m.die()
	}
}

func TestNoPodIsDeletedUnderASlotThatAnOlderCRDCutsShort(t *testing.T) {
	for _, fields := range [][]string{{"status.inFlight"}, {"status.inFlight[].podUID"}, {"status.queued"}, {"status.inFlight[].turn"}} {
		t.Run(fields[0], func(t *testing.T) {
			schedule(t, []string{"single"}, func(s *simSchedule) {
				s.gets(0, "good-1")
				s.olderCRDs(simapi.Schema{simRollouts: fields})
				s.works(s.a, time.Minute)
				for _, h := range s.hosts {
					s.isThere(s.podOf(0, h.name).UID)
					if s.atTarget(s.g, h.name) {
						s.violate("%s is upgraded, and no ledger says so", h.name)
					}
				}
				s.newerCRDs()
				s.worksUntil(s.a, "every node is updated", rollout.DefaultDeadlines.Progress, s.arrived)
			})
		})
	}
}

// Somebody writes the rollout meanwhile: then the field stays lost.
func TestASlotThatAnOlderCRDTookTheNodesUIDFromIsKept(t *testing.T) {
	schedule(t, []string{"single"}, func(s *simSchedule) {
		s.goesBy(10 * time.Minute)
		s.gets(0, "hang-1")
		node := s.begins()
		s.olderCRDs(simapi.Schema{simRollouts: {"status.inFlight[].uid"}})
		s.annotateRollout(s.rolloutOf(s.g.id), topsv1.AnnotationResume, "word")
		s.newerCRDs()
		s.a.restart()
		s.a.sees()
		s.a.passes(s.g.id)
		if s.inFlight(1) != node || s.failed() || s.rolloutOf(s.g.id).Status.InFlight[0].UID == "" {
			s.violate("the slot of %s is not as it was: %s", node, s.describe())
		}
	})
}

// A node is kept cordoned for a driver that was not verified before there was a newer one; an older CRD may have dropped since that the
// operation was granted, or its tasks.
func TestANodeIsHeldForAnUnprovenDriverWhateverAnOlderCRDDropped(t *testing.T) {
	for _, tc := range []struct {
		name  string
		with  func(*simOp, *topsv1.OperationStatus)
		wrong bool
	}{
		{"its record is whole", func(*simOp, *topsv1.OperationStatus) {}, false},
		{"without its grant", func(_ *simOp, now *topsv1.OperationStatus) { now.Granted = false }, false},
		{"without its tasks", func(_ *simOp, now *topsv1.OperationStatus) { now.Tasks = nil }, false},
		{"it was never granted", func(op *simOp, now *topsv1.OperationStatus) { op.granted, now.Granted = false, false }, true},
		{"it touched nothing", func(_ *simOp, now *topsv1.OperationStatus) { now.Touched = false }, true},
		{"its driver was not replaced", func(_ *simOp, now *topsv1.OperationStatus) { now.Tasks[0].Pod = nil }, true},
		{"there is no newer driver", func(_ *simOp, now *topsv1.OperationStatus) { now.Reason = operation.ReasonAborted }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := &topsv1.OperationStatus{ID: "op", Phase: topsv1.OperationAborted, Reason: operation.ReasonTargetChanged, Granted: true, Touched: true, Held: true,
				Tasks: []topsv1.OperationTask{{Name: "n00_driver_replace", State: topsv1.OperationTaskRunning, Pod: &topsv1.NamedPod{}}}}
			op, w := &simOp{node: "n00", granted: true}, &simWorld{now: fixture.Epoch}
			w.withOperations()
			w.ops.known["op"] = op
			tc.with(op, now)
			w.checkRecord(&topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "n00"}}, now.DeepCopy(), now)
			if wrong := len(w.violations) > 0; wrong != tc.wrong {
				t.Errorf("the checks say %q", w.violations)
			}
		})
	}
}
