package daemonupdater

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
	"github.com/topsops/gcu-operator/pkg/podreplace"
	"github.com/topsops/gcu-operator/test/fixture"
)

// ofTheFleet makes the DaemonSet the driver of the gr "fleet", which is replaced by operations.
func ofTheFleet(ds *appsv1.DaemonSet) {
	fixture.OfGcuResource(ds)
	ds.Labels[topsv1.LabelComponent] = "driver"
}

// upgrade returns the NodeUpgrade that has an operation, nil if none has.
func (c *cluster) upgrade() *topsv1.NodeUpgrade {
	c.t.Helper()
	var list topsv1.NodeUpgradeList
	if err := c.api.List(context.Background(), &list); err != nil {
		c.t.Fatal(err)
	}
	for i := range list.Items {
		if list.Items[i].Spec.Operation != nil {
			return &list.Items[i]
		}
	}
	return nil
}

// operationFault is the fault of a write to a NodeUpgrade, nil for none and for other objects.
func (c *cluster) operationFault(object client.Object) error {
	if _, ok := object.(*topsv1.NodeUpgrade); !ok || c.onOperationWrite == nil {
		return nil
	}
	return c.onOperationWrite(object.GetName())
}

// show changes the status of the operation of a NodeUpgrade.
func (c *cluster) show(u *topsv1.NodeUpgrade, change func(*topsv1.OperationStatus)) {
	c.t.Helper()
	if u.Status.Operation == nil {
		u.Status.Operation = &topsv1.OperationStatus{ID: u.Spec.Operation.ID, Rollout: u.Spec.Operation.Rollout,
			Revision: u.Spec.Operation.Revision, Phase: topsv1.OperationRunning, Since: fixture.Ago(0), StartTime: fixture.Ago(0)}
	}
	change(u.Status.Operation)
	if op := u.Status.Operation; op.Phase.Final() {
		u.Status.History = append(u.Status.History, topsv1.OperationRecord{ID: op.ID, Revision: op.Revision, Phase: op.Phase, Reason: op.Reason,
			StartTime: fixture.Ago(0), EndTime: fixture.Ago(0)})
	}
	if err := c.api.Status().Update(context.Background(), u); err != nil {
		c.t.Fatal(err)
	}
}

func prepared(op *topsv1.OperationStatus) {
	now := fixture.Ago(0)
	op.PreparedTime = &now
}

// preparedCluster returns a cluster with one node whose operation waits for its slot.
func preparedCluster(t *testing.T) *cluster {
	c := newCluster(t, ofTheFleet)
	c.mustReconcile()
	u := c.upgrade()
	if u == nil || u.Spec.Operation.Granted || len(c.slots()) != 0 {
		t.Fatalf("operation %+v, slots %v: want one that is prepared without a slot", u, c.slots())
	}
	if owner := u.OwnerReferences; len(owner) != 1 || owner[0].Kind != "Node" || owner[0].Name != u.Name {
		t.Errorf("it is owned by %v", owner)
	}
	c.show(u, prepared)
	return c
}

// Once a node has an operation, a retry is about that: one that ends the node's pin would never be answered.
func TestANodeThatIsFreedGetsItsOperationAfterTheAnswer(t *testing.T) {
	c := newCluster(t, ofTheFleet)
	for _, node := range []string{"a", "b", "c"} {
		u := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: node}}
		metav1.SetMetaDataAnnotation(&u.ObjectMeta, topsv1.AnnotationTaskOverride, "retry:"+node+"_driver_replace:1")
		if err := c.api.Create(t.Context(), u); err != nil {
			t.Fatal(err)
		}
	}
	c.onAnswer = conflict
	_, _ = c.reconcile()
	if u := c.upgrade(); u != nil {
		t.Fatalf("node %s gets operation %s, and its retry has the answers %+v", u.Name, u.Spec.Operation.ID, u.Status.Tasks)
	}
	c.onAnswer = nil
	for range 3 {
		_, _ = c.reconcile()
	}
	u := c.upgrade()
	if u == nil {
		t.Fatal("no node gets an operation after the answer")
	}
	if len(u.Status.Tasks) != 1 || u.Status.Tasks[0].State != topsv1.TaskDone {
		t.Errorf("the retry of node %s has the answers %+v", u.Name, u.Status.Tasks)
	}
}

func TestAnOperationIsGrantedOnceItsSlotIsStored(t *testing.T) {
	c := preparedCluster(t)
	c.onStatusUpdate = conflict
	if _, err := c.reconcile(); err != nil || c.upgrade().Spec.Operation.Granted {
		t.Fatalf("granted=%t, %v: the slot was not stored", c.upgrade().Spec.Operation.Granted, err)
	}
	c.onStatusUpdate = nil
	c.mustReconcile()
	u := c.upgrade()
	slots := c.stored().Status.InFlight
	if len(slots) != 1 || slots[0].Node != u.Name || slots[0].Operation != u.Spec.Operation.ID || !u.Spec.Operation.Granted {
		t.Fatalf("slots %+v, operation %+v", slots, u.Spec.Operation)
	}
	c.wantDeletions()
}

func TestTheSlotOfAnOperationIsHeldUntilItHasEnded(t *testing.T) {
	c := preparedCluster(t)
	c.mustReconcile()
	u := c.upgrade()
	c.show(u, func(op *topsv1.OperationStatus) { op.Granted, op.Task = true, u.Name+"_driver_replace" })
	c.mustReconcile()
	if len(c.slots()) != 1 {
		t.Fatalf("slots %v while the operation runs", c.slots())
	}
	c.show(u, func(op *topsv1.OperationStatus) { op.Phase, op.Reason = topsv1.OperationFailed, "CrashLoop" })
	c.mustReconcile()
	if failed := c.stored().Status.Failed; len(failed) != 1 || failed[0].Reason != "OperationFailed" || len(c.slots()) != 0 {
		t.Errorf("slots %v, failed %+v", c.slots(), failed)
	}
	c.wantDeletions()
}

// failedCluster returns a cluster with one node, and its NodeUpgrade: the operation replaced the driver, whose pod is available, but
// nothing shows that the cards work.
func failedCluster(t *testing.T) (*cluster, *topsv1.NodeUpgrade) {
	c := preparedCluster(t)
	c.mustReconcile()
	u := c.upgrade()
	if err := c.api.Delete(t.Context(), fixture.PodOn(c.driver, u.Name, fixture.OldHash)); err != nil {
		t.Fatal(err)
	}
	c.create(fixture.PodOn(c.driver, u.Name, fixture.NewHash))
	c.show(u, func(op *topsv1.OperationStatus) {
		op.Granted, op.Held, op.Phase, op.Reason = true, true, topsv1.OperationFailed, operation.ReasonVerifyFailed
	})
	record := &u.Status.History[0]
	record.Touched, record.Result.Done, record.Result.Fail = true, []string{u.Name + "_driver_replace"}, []string{u.Name + "_driver_verify"}
	return c, u
}

// wantFailed makes a pass after events for these nodes, and checks whether the one node has failed; else it is updated.
func (c *cluster) wantFailed(failed bool, when string, changed ...string) {
	c.t.Helper()
	c.now = c.now.Add(moveInterval)
	for _, node := range changed {
		c.reconciler.changed.Add(observed.GroupOf(c.driver), node)
	}
	if _, err := c.reconciler.Reconcile(c.t.Context(), observed.GroupOf(c.driver)); err != nil {
		c.t.Fatalf("%s: %v", when, err)
	}
	if r := c.stored().Status; len(r.Failed) == 1 != failed || r.Updated == 1 == failed {
		c.t.Errorf("%s: %d nodes are updated, failed are %+v", when, r.Updated, r.Failed)
	}
}

func TestANodeWhoseFailedOperationAPersonEndedHasFailedUntilItIsVerified(t *testing.T) {
	c, u := failedCluster(t)
	for _, ended := range []bool{false, true} {
		u.Status.Operation.Held = !ended // kubectl gcu abort
		if err := c.api.Status().Update(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		c.wantFailed(true, fmt.Sprintf("ended by a person: %t", ended), u.Name)
		if r := c.stored().Status; len(r.Failed) == 1 && r.Failed[0].Node != u.Name {
			t.Errorf("failed are %+v", r.Failed)
		}
	}
}

// What the ledger shows of the operation counts at once, also if another manager wrote it: the node does not change with it.
func TestANodeWhoseFailedOperationIsForgottenHasFailedUntilAPersonResumesTheRollout(t *testing.T) {
	c, u := failedCluster(t)
	if err := c.api.Status().Update(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	c.wantFailed(true, "as it ended", u.Name)
	failed := c.stored().Status.Failed
	if err := c.api.Delete(t.Context(), c.upgrade()); err != nil {
		t.Fatal(err)
	}
	c.wantFailed(true, "its NodeUpgrade is deleted", u.Name)
	c.wantFailed(true, "for some time")
	r := c.stored()
	metav1.SetMetaDataAnnotation(&r.ObjectMeta, topsv1.AnnotationResume, "now")
	if err := c.api.Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	c.wantFailed(false, "a person resumes the rollout")
	r = c.stored()
	r.Status.Failed = failed
	if err := c.api.Status().Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	c.wantFailed(true, "another manager has noted its failure")
}

func TestAnOperationThatIsNotThereAnyMoreIsMadeWithoutAGrant(t *testing.T) {
	c := preparedCluster(t)
	c.mustReconcile()
	if err := c.api.Delete(context.Background(), c.upgrade()); err != nil {
		t.Fatal(err)
	}
	id := c.stored().Status.InFlight[0].Operation
	for _, granted := range []bool{false, true} {
		c.mustReconcile()
		if op := c.upgrade().Spec.Operation; op.ID != id || op.Granted != granted {
			t.Fatalf("operation %s, granted=%t: want %s, and the grant a pass later", op.ID, op.Granted, id)
		}
	}
}

func TestWhenTheControlEndsOperationsAreTakenAway(t *testing.T) {
	c := preparedCluster(t)
	c.mustReconcile()
	u := c.upgrade()
	c.show(u, func(op *topsv1.OperationStatus) { op.Granted = true })
	delete(c.driver.Annotations, topsv1.AnnotationUpdateStrategy)
	c.update(c.driver)
	c.mustReconcile()
	if u = c.upgrade(); !u.Spec.Operation.Abort {
		t.Fatalf("operation %+v is not aborted", u.Spec.Operation)
	}
	c.show(u, func(op *topsv1.OperationStatus) { op.Phase, op.Reason = topsv1.OperationAborted, "Aborted" })
	for range 5 {
		if c.mustReconcile() == 0 {
			break
		}
	}
	if u = c.upgrade(); u != nil || c.stored().ResourceVersion != "" {
		t.Errorf("operation %+v, rollout %q are left", u, c.stored().Name)
	}
}

func TestWhenTheGroupIsGoneItsOperationsAreTakenAway(t *testing.T) {
	c := preparedCluster(t)
	if err := c.api.Delete(context.Background(), c.driver); err != nil {
		t.Fatal(err)
	}
	c.mustReconcile()
	if u := c.upgrade(); u != nil {
		t.Errorf("operation %+v is left", u.Spec.Operation)
	}
}

// A DaemonSet in the operator's namespace may have the name of a gr. It has no operations itself.
func TestWhenADaemonSetIsGoneTheOperationsOfAGcuResourceOfItsNameStay(t *testing.T) {
	c := preparedCluster(t)
	_, err := c.reconciler.Reconcile(t.Context(), observed.Group{Kind: observed.KindDaemonSet, Namespace: "gcu-system", Name: "fleet"})
	if err != nil || c.upgrade() == nil {
		t.Errorf("%v, operation %v, want that of the gr to stay", err, c.upgrade())
	}
}

func TestAnOperationIsNotGrantedOverANodeUpgradeThatMoved(t *testing.T) {
	c := preparedCluster(t)
	u := c.upgrade()
	moved := false
	c.reconciler.Live = readAnd{c.api, func(object client.Object) {
		if _, ok := object.(*topsv1.NodeUpgrade); ok && !moved {
			moved = true
			c.show(u, func(op *topsv1.OperationStatus) { op.Phase, op.Reason = topsv1.OperationAborted, "Aborted" })
		}
	}}
	if after, err := c.reconcile(); err != nil || after != retryStaleCache || c.upgrade().Spec.Operation.Granted {
		t.Errorf("after %s, %v: granted=%t, want to decide again", after, err, c.upgrade().Spec.Operation.Granted)
	}
}

// The cache does not show yet that the upgrade was stopped, or what it was limited to.
func TestAnOperationIsNotGrantedUnderSettingsThatChangedMeanwhile(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(*appsv1.DaemonSet)
		granted bool
	}{
		{"they are as they were", func(*appsv1.DaemonSet) {}, true},
		{"it was paused", func(ds *appsv1.DaemonSet) { fixture.Annotate(ds, topsv1.AnnotationPaused, "true") }, false},
		{"it was limited to other nodes", func(ds *appsv1.DaemonSet) { fixture.Annotate(ds, topsv1.AnnotationUpgradeOnly, "nodes=z") }, false},
		{"there is another template", func(ds *appsv1.DaemonSet) { ds.Generation++ }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := preparedCluster(t)
			c.reconciler.Live = readAnd{c.api, func(object client.Object) {
				if ds, ok := object.(*appsv1.DaemonSet); ok {
					tt.change(ds)
				}
			}}
			after := c.mustReconcile()
			if got := c.upgrade().Spec.Operation.Granted; got != tt.granted || !got && after != retryStaleCache {
				t.Errorf("granted=%t, decides again after %s", got, after)
			}
		})
	}
}

// readAnd calls a function after each read.
type readAnd struct {
	client.Reader
	then func(client.Object)
}

func (r readAnd) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	err := r.Reader.Get(ctx, key, object, opts...)
	r.then(object)
	return err
}

func TestNothingIsOrderedOfANodeUpgradeThatGoesWithItsNode(t *testing.T) {
	c := newCluster(t, ofTheFleet)
	for _, name := range []string{"a", "b", "c"} {
		u := observed.NewNodeUpgrade(&rollout.OperationChange{Node: name, UID: "of before"}, nil)
		if err := c.api.Create(context.Background(), u); err != nil {
			t.Fatal(err)
		}
	}
	if after, err := c.reconcile(); err != nil || after != retryStaleCache || c.upgrade() != nil {
		t.Errorf("after %s, %v: operation %v", after, err, c.upgrade())
	}
}

// TestAnAbortIsWrittenOnceWithoutAStrategy: events wake the group when an operation has ended.
func TestAnAbortIsWrittenOnceWithoutAStrategy(t *testing.T) {
	c := preparedCluster(t)
	c.mustReconcile()
	if c.optOut(); !c.upgrade().Spec.Operation.Granted {
		t.Fatalf("operation %+v, want it granted", c.upgrade().Spec.Operation)
	}
	if after := c.mustReconcile(); after != releaseInterval || !c.upgrade().Spec.Operation.Abort {
		t.Errorf("operation %+v, decides again after %s, want it aborted, and %s", c.upgrade().Spec.Operation, after, releaseInterval)
	}
	read := 0
	c.reconciler.Live = readAnd{c.api, func(object client.Object) {
		if _, ok := object.(*topsv1.NodeUpgrade); ok {
			read++
		}
	}}
	if after := c.mustReconcile(); after != releaseInterval || read > 0 {
		t.Errorf("%d NodeUpgrades are read live, decides again after %s, want none, and %s", read, after, releaseInterval)
	}
}

// TestAnOperationWakesItsGroupWhateverBecameOfIt: the group waits for the end of the operation,
// even if it has no strategy any more, or is gone (invariant S3).
func TestAnOperationWakesItsGroupWhateverBecameOfIt(t *testing.T) {
	group := observed.Group{Kind: observed.KindGcuResource, Name: "fleet"}
	c := newCluster(t, func(ds *appsv1.DaemonSet) {
		ofTheFleet(ds)
		delete(ds.Annotations, topsv1.AnnotationUpdateStrategy)
	})
	for _, u := range []*topsv1.NodeUpgrade{
		{Spec: topsv1.NodeUpgradeSpec{Operation: &topsv1.NodeOperation{ID: "x", Rollout: "gcu-system/fleet"}}},
		{Status: topsv1.NodeUpgradeStatus{Operation: &topsv1.OperationStatus{ID: "x", Rollout: "gcu-system/fleet", Phase: topsv1.OperationAborted}}},
	} {
		u.Name = "a"
		if groups := c.reconciler.watches().OfNodeUpgrade(context.Background(), u); !slices.Contains(groups, group) {
			t.Errorf("it wakes %v, want %s among them", groups, group)
		}
		if changed, _ := c.reconciler.changed.Take(group); !slices.Contains(changed, "a") {
			t.Errorf("nodes %v are read again, want a", changed)
		}
	}
}

// TestANodeWhoseOperationMayNotBeCreatedIsDeferred: it does not keep others from being prepared.
func TestANodeWhoseOperationMayNotBeCreatedIsDeferred(t *testing.T) {
	for name, refusal := range map[string]error{
		"by a webhook":   apierrors.NewForbidden(schema.GroupResource{Resource: "nodeupgrades"}, "", errors.New("policy says no")),
		"by the schema":  apierrors.NewInvalid(schema.GroupKind{Kind: "NodeUpgrade"}, "", nil),
		"as its webhook": apierrors.NewInternalError(errors.New("failed calling webhook")),
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, ofTheFleet)
			refused, tried := "", 0
			c.onOperationWrite = func(node string) error {
				if refused == "" {
					refused = node
				}
				if node != refused {
					return nil
				}
				tried++
				return refusal
			}
			for range 5 {
				_, _ = c.reconcile() // a webhook that cannot be called fails the pass
			}
			if u := c.upgrade(); tried != 1 || u == nil || u.Name == refused {
				t.Fatalf("tried %d times on node %s; prepared is %v, want another node", tried, refused, u)
			}
			said := false
			if err := c.api.Delete(context.Background(), c.upgrade()); err != nil {
				t.Fatal(err)
			}
			c.onOperationWrite = func(string) error { tried++; return refusal }
			for range 20 {
				c.now = c.now.Add(2 * time.Second)
				_, _ = c.reconcile()
				said = said || slices.ContainsFunc(c.stored().Status.Waiting, func(n topsv1.WaitingNote) bool {
					return n.Reason == "Deferred" && strings.Contains(n.Message, refusal.Error())
				})
			}
			if !said || tried > 3*6 {
				t.Errorf("it was tried %d times; what it waits for was reported: %v", tried, said)
			}
		})
	}
}

// TestARefusedGrantSaysWhy: the node keeps its slot meanwhile, as a late grant may arrive.
func TestARefusedGrantSaysWhy(t *testing.T) {
	c, tried := preparedCluster(t), map[string]int{}
	c.onOperationWrite = func(node string) error {
		tried[node]++
		return apierrors.NewForbidden(schema.GroupResource{Resource: "nodeupgrades"}, "", errors.New("policy says no"))
	}
	for range 5 {
		c.mustReconcile()
	}
	if node := c.upgrade().Name; tried[node] != 1 {
		t.Errorf("tried %d times at once, want once", tried[node])
	}
	c.now = c.now.Add(moveInterval)
	c.mustReconcile()
	r := c.stored()
	if slots := r.Status.InFlight; len(slots) != 1 || slots[0].Step != "OperationDenied" {
		t.Errorf("slots %+v, want one that waits for OperationDenied", slots)
	}
	if said := meta.FindStatusCondition(r.Status.Conditions, topsv1.RolloutProgressing).Message; !strings.Contains(said, "policy says no") {
		t.Errorf("Progressing: %s", said)
	}
	c.onOperationWrite = nil
	for range 3 {
		c.now = c.now.Add(moveInterval)
		c.mustReconcile()
	}
	if slots := c.stored().Status.InFlight; len(slots) != 1 || slots[0].Step != "Operating" {
		t.Errorf("slots %+v, want one whose operation was granted", slots)
	}
}

// TestANodeUpgradeOfAFormerNodeDefersItsNode: the garbage collector may be frozen for long.
func TestANodeUpgradeOfAFormerNodeDefersItsNode(t *testing.T) {
	c := newCluster(t, ofTheFleet)
	c.mustReconcile()
	first := c.upgrade()
	first.OwnerReferences[0].UID, first.Spec.Operation = "former", nil
	if err := c.api.Update(context.Background(), first); err != nil {
		t.Fatal(err)
	}
	for pass := range 5 {
		if again := c.mustReconcile(); pass > 0 && again == retryStaleCache {
			t.Errorf("pass %d: decides again after %s", pass, again)
		}
	}
	if u := c.upgrade(); u == nil || u.Name == first.Name {
		t.Errorf("prepared is %v, want another node", u)
	}
}

func TestASlotWhoseOperationTheCacheDoesNotShowIsNotGivenBack(t *testing.T) {
	c := preparedCluster(t)
	u := c.upgrade()
	r := fleetReader{Cluster: access.Cluster{Live: c.api}}
	slot := rollout.Slot{Node: u.Name, Operation: u.Spec.Operation.ID}
	if err := r.confirmNoOperation(t.Context(), &slot); !errors.Is(err, podreplace.ErrChanged) {
		t.Errorf("with its operation on the node: %v", err)
	}
	slot.Operation = "another"
	if err := r.confirmNoOperation(t.Context(), &slot); err != nil {
		t.Errorf("with another one: %v", err)
	}
	slot.Node = "without-one"
	if err := r.confirmNoOperation(t.Context(), &slot); err != nil {
		t.Errorf("without any: %v", err)
	}
}
