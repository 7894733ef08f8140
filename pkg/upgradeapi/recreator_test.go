package upgradeapi

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/recreation"
)

// A gr that does not become Running is watched until the deadline, and left unchanged.
func TestAnUpgradeThatDoesNotRunIsWatchedForATime(t *testing.T) {
	d := newTestServer(t)
	d.create("stuck")
	accepted := time.Now()
	clk := testingclock.NewFakePassiveClock(accepted)
	leader := d.leader(clk)
	d.succeeds(http.MethodPut, "/gum/v1/gr/stuck", `{"spec": {"driver": {"version": "2"}}, "mode": "recreate"}`)
	clk.SetTime(accepted.Add(24 * time.Hour)) // an unreachable node keeps the old gr for a day
	if again := d.pass(leader, "stuck"); again == 0 || !d.accepted("stuck") {
		t.Fatal("the upgrade was given up, and the gr is lost")
	}
	d.letGo("stuck")
	d.pass(leader, "stuck")
	if d.gr("stuck") == nil {
		t.Fatal("the gr is lost")
	}
	if again := d.pass(leader, "stuck"); again != 0 || d.accepted("stuck") {
		t.Error("it is watched for ever")
	}
	if now := d.gr("stuck"); now.DeletionTimestamp != nil || now.Spec.Driver.Version != "2" || now.CreationTimestamp == (metav1.Time{}) {
		t.Errorf("got %+v", now)
	}
}

// What was accepted is done only as long as its author may do it, and is not lost otherwise.
func TestAnAuthorThatLostRightsCreatesNothing(t *testing.T) {
	d := newTestServer(t)
	ctx := context.Background()
	rec := &recreation.Recreation{GcuResource: &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "revoked"}}, Replaces: "old",
		Author: authenticationv1.UserInfo{Username: "former"}, Accepted: time.Now()}
	stored, err := rec.Object()
	d.must(err)
	d.must(d.admin.Create(ctx, stored))
	t.Cleanup(func() { d.remove("revoked") })
	leader := d.leader(clock.RealClock{})
	leader.Access = only("delete")
	if _, err := leader.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKey{Name: "revoked"}}); err == nil || d.gr("revoked") != nil || !d.accepted("revoked") {
		t.Fatalf("got %v, and gr %v", err, d.gr("revoked"))
	}
	leader.Access = only("create")
	if d.pass(leader, "revoked"); d.gr("revoked") == nil {
		t.Error("it is not created when its author may again")
	}
}

// everything may be done by everyone.
type everything struct{ only }

func (everything) Authorize(context.Context, authenticationv1.UserInfo, authorizationv1.ResourceAttributes) error {
	return nil
}

// leader returns a Recreator for the upgrades that a testServer accepted.
func (d *testServer) leader(clk clock.PassiveClock) *Recreator {
	return &Recreator{Client: d.api.Client, Namespace: namespace, Access: everything{}, Log: d.api.Log, Clock: clk}
}

// pass makes the leader reconcile a gr once and returns the time until the next check.
func (d *testServer) pass(r *Recreator, name string) time.Duration {
	d.t.Helper()
	result, err := r.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
	d.must(err)
	return result.RequeueAfter
}

// accepted reports whether an upgrade of a gr is stored.
func (d *testServer) accepted(name string) bool {
	d.t.Helper()
	err := d.admin.Get(context.Background(), client.ObjectKey{Name: name}, &topsv1.GcuResourceRecreation{})
	d.must(client.IgnoreNotFound(err))
	return !apierrors.IsNotFound(err)
}

func TestContractUpgradeByRecreation(t *testing.T) {
	d := newTestServer(t)
	const name = "enflame-gcu-resource"
	path := "/gum/v1/gr/" + name
	old := d.create(name, func(gr *topsv1.GcuResource) { gr.Spec.Exporter = &topsv1.BaseFields{} })
	old.Spec.Driver.Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
	d.must(d.admin.Update(context.Background(), old))
	d.file("gr.json", blueprint(name, "2.0.0"))
	leader := d.leader(clock.RealClock{})

	t.Run("contract 72 and 73: the answer comes when the deletion is accepted", func(t *testing.T) {
		got := d.succeeds(http.MethodPut, path, `{"file": "gr.json", "mode": "recreate"}`)
		if now := d.gr(name); got.body != plainSuccess(OperationUpgrade) || now.UID != old.UID || now.DeletionTimestamp == nil {
			t.Errorf("got %s, and the old gr is %+v", got.body, now.ObjectMeta)
		}
	})
	t.Run("contract 79: nothing else is done with the gr meanwhile", func(t *testing.T) {
		for _, body := range []string{`{"file": "gr.json"}`, `{"file": "gr.json", "mode": "recreate"}`} {
			d.fails(http.MethodPut, path, body, http.StatusConflict, "an upgrade of enflame-gcu-resource is under way")
		}
		d.fails(http.MethodDelete, path, "", http.StatusConflict, "under way")
		for _, verb := range []string{"pause", "resume", "rollback"} {
			d.fails(http.MethodPost, path+"/"+verb, "", http.StatusConflict, "under way")
		}
	})
	t.Run("contract 73: the old gr is looked at every 3 s, the new one every 5 s", func(t *testing.T) {
		for range 2 {
			if again := d.pass(leader, name); again != 3*time.Second || d.gr(name).UID != old.UID {
				t.Errorf("looks again after %s", again)
			}
		}
		d.letGo(name)
		for range 3 {
			if again := d.pass(leader, name); again != 5*time.Second || d.gr(name).UID == old.UID {
				t.Errorf("looks again after %s", again)
			}
		}
	})
	t.Run("contract 75 and 76: the new gr is another object, with what the blueprint lists only", func(t *testing.T) {
		now := d.gr(name)
		if now.Generation != 1 || now.Spec.Driver.Version != "2.0.0" || now.Spec.Exporter != nil || now.Spec.Driver.Env != nil {
			t.Errorf("got %+v", now)
		}
	})
	t.Run("contract 76: when it runs, its action is deploy, observedGeneration 1, and the upgrade is over", func(t *testing.T) {
		d.runs(name)
		if again := d.pass(leader, name); again != 0 || d.accepted(name) {
			t.Errorf("looks again after %s, stored: %t", again, d.accepted(name))
		}
		if now := d.gr(name); now.Status.ObservedGeneration != 1 || now.Status.Conditions[0].Action != "deploy" {
			t.Errorf("got %+v", now.Status)
		}
	})
	t.Run("contract 73 and 78: each look is logged", func(t *testing.T) {
		var got []string
		for _, m := range regexp.MustCompile(`(?m) INFO upgradeapi/(?:upgrade|cluster|recreator)\.go:\d+ ([A-Z][^(]*) gcuResource\(.*?(retry=\d+)?(?: phase=""| message=""|$)`).FindAllStringSubmatch(d.logged(), -1) {
			got = append(got, strings.TrimSpace(m[1]+" "+m[2]))
		}
		want := []string{
			"Storing the new GcuResource, the old one is deleted next", "Deleting GcuResource",
			"Waiting until the old GcuResource is gone retry=0", "Waiting until the old GcuResource is gone retry=1",
			"The old GcuResource is gone, creating the new one retry=2",
			"Waiting until the new GcuResource is Running retry=0", "Waiting until the new GcuResource is Running retry=1", "The new GcuResource is Running retry=2",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s\n%s", diff, d.logged())
		}
	})
}

func TestAnUpgradeThatIsWatchedGivesWay(t *testing.T) {
	d := newTestServer(t)
	leader := d.leader(clock.RealClock{})
	d.create("again")
	recreate := func(version string) {
		t.Helper()
		d.succeeds(http.MethodPut, "/gum/v1/gr/again", fmt.Sprintf(`{"spec": {"driver": {"version": %q}}, "mode": "recreate"}`, version))
		d.letGo("again")
		d.pass(leader, "again")
		if now := d.gr("again"); now.Spec.Driver.Version != version {
			t.Fatalf("version %s: got %+v", version, now.Spec.Driver)
		}
	}
	recreate("2")
	recreate("3") // although 2 never became Running
	d.succeeds(http.MethodPut, "/gum/v1/gr/again", `{"spec": {"driver": {"version": "4"}}}`)
	d.succeeds(http.MethodDelete, "/gum/v1/gr/again", "")
	if again := d.pass(leader, "again"); again != 0 || d.accepted("again") || d.gr("again") != nil {
		t.Errorf("a gr that was deleted is still upgraded: %+v", d.gr("again"))
	}
}

func TestAGrOfAnotherClientIsNotChanged(t *testing.T) {
	d := newTestServer(t)
	d.create("taken")
	d.succeeds(http.MethodPut, "/gum/v1/gr/taken", `{"spec": {"driver": {"version": "2"}}, "mode": "recreate"}`)
	d.letGo("taken")
	foreign := d.create("taken")
	if again := d.pass(d.leader(clock.RealClock{}), "taken"); again != 0 || d.accepted("taken") {
		t.Error("it goes on")
	}
	if now := d.gr("taken"); now.UID != foreign.UID || now.Spec.Driver.Version != "1.0.0" || now.DeletionTimestamp != nil {
		t.Errorf("got %+v", now)
	}
	if !strings.Contains(d.logged(), " ERROR ") {
		t.Errorf("nobody is told: %s", d.logged())
	}
}
