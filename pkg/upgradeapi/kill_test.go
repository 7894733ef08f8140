package upgradeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// mortal is the API server as seen by a process that dies at one of its writes, before
// sending it or before reading the response. Later calls do not get through.
type mortal struct {
	client.Client
	mutex sync.Mutex
	// last is the write at which the process dies; 0 means never.
	last int
	// sent is true if this write gets through.
	sent   bool
	writes int
	dead   bool
}

var errDead = errors.New("the process is dead")

// isStored reports whether a write is not a dry run.
func isStored(dryRun []string) bool { return !slices.Contains(dryRun, "All") }

func (m *mortal) write(stored bool, send func() error) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.dead {
		return errDead
	}
	if !stored {
		return send()
	}
	m.writes++
	if m.writes != m.last {
		return send()
	}
	m.dead = true
	if m.sent {
		_ = send() // its response is lost
	}
	return errDead
}

func (m *mortal) isDead() bool {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	return m.dead
}

func (m *mortal) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if m.isDead() {
		return errDead
	}
	return m.Client.Get(ctx, key, o, options...)
}

func (m *mortal) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	applied := (&client.CreateOptions{}).ApplyOptions(options)
	return m.write(isStored(applied.DryRun), func() error { return m.Client.Create(ctx, o, options...) })
}

func (m *mortal) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	applied := (&client.DeleteOptions{}).ApplyOptions(options)
	return m.write(isStored(applied.DryRun), func() error { return m.Client.Delete(ctx, o, options...) })
}

func (m *mortal) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	applied := (&client.PatchOptions{}).ApplyOptions(options)
	return m.write(isStored(applied.DryRun), func() error { return m.Client.Patch(ctx, o, patch, options...) })
}

// finish plays the operator and the leader until there is nothing left to do.
func (d *testServer) finish(leader *Recreator, name string, m *mortal) {
	d.t.Helper()
	for range 20 {
		if m != nil && m.isDead() {
			return
		}
		if !d.accepted(name) {
			break
		}
		_, err := leader.Reconcile(context.Background(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
		if err != nil && m == nil {
			d.t.Fatal(err)
		}
		switch gr := d.gr(name); {
		case gr == nil:
		case gr.DeletionTimestamp != nil:
			d.letGo(name)
		case gr.Spec.Driver.Version == "2" && gr.Status.Phase == "":
			d.runs(name)
		}
	}
	if gr := d.gr(name); gr != nil && gr.DeletionTimestamp != nil {
		d.letGo(name)
	}
}

// A manager may die at any write, before or after it gets through: an upgrade or a deletion
// is either completed or never started.
func TestAManagerThatDiesLosesNothing(t *testing.T) {
	stories := []struct {
		name, method, body string
		writes             int
	}{
		{"upgrade by recreation", http.MethodPut, `{"spec": {"driver": {"version": "2"}}, "mode": "recreate"}`, 5},
		{"upgrade in place", http.MethodPut, `{"spec": {"driver": {"version": "2"}}}`, 1},
		{"deletion", http.MethodDelete, ``, 1},
		{"deletion in the foreground", http.MethodDelete, `{"policy": "foreground"}`, 1},
	}
	for i, story := range stories {
		for last := 0; last <= story.writes; last++ {
			for _, sent := range []bool{false, true}[:min(last+1, 2)] { // once if it never dies
				t.Run(fmt.Sprintf("%s, dead at write %d, which got through: %t", story.name, last, sent), func(t *testing.T) {
					m := &mortal{Client: apiserver.Shared(t).Client(t, apiserver.Operator), last: last, sent: sent}
					d := newTestServer(t, func(o *Options) { o.Client = m })
					name := fmt.Sprintf("killed-%d-%d-%t", i, last, sent)
					old := d.create(name)
					later := d.sendLater(t.Context(), story.method, "/gum/v1/gr/"+name, story.body)
					if story.name == "deletion in the foreground" && last == 0 {
						d.goes(name)
						d.letGo(name)
					}
					got := d.after(later)
					d.finish(&Recreator{Client: m, Namespace: namespace, Access: everything{}, Log: d.api.Log, Clock: clock.RealClock{}}, name, m)
					if last > 0 && !m.isDead() {
						t.Fatalf("the story has no write %d", last)
					}
					if last == 0 && m.writes != story.writes {
						t.Errorf("the story has %d writes, not %d: add them to the table", m.writes, story.writes)
					}
					d.finish(&Recreator{Client: apiserver.Shared(t).Client(t, apiserver.Operator), Namespace: namespace, Access: everything{}, Log: d.api.Log, Clock: clock.RealClock{}}, name, nil)
					begun := last != 1 || sent
					d.ends(story.method, story.name, old, begun)
					if got.Result == ResultSuccess && !begun {
						t.Errorf("the caller was told of a success: %s", got.body)
					}
					if d.accepted(name) {
						t.Error("it does not come to an end")
					}
				})
			}
		}
	}
}

// ends checks the outcome for a gr.
func (d *testServer) ends(method, story string, old *topsv1.GcuResource, begun bool) {
	d.t.Helper()
	now := d.gr(old.Name)
	switch {
	case !begun:
		if now == nil || now.UID != old.UID || now.Spec.Driver.Version != "1.0.0" || now.DeletionTimestamp != nil {
			d.t.Errorf("it was not begun, and the gr is %+v", now)
		}
	case method == http.MethodDelete:
		if now != nil {
			d.t.Errorf("it is still there: %+v", now)
		}
	case now == nil || now.Spec.Driver.Version != "2" || now.DeletionTimestamp != nil:
		d.t.Errorf("it is not upgraded: %+v", now)
	case (now.UID == old.UID) == (story == "upgrade by recreation"):
		d.t.Error("it was created again, or it was not")
	}
}

// TestTheNextLeaderFinishesWhatWasAccepted starts a real manager after the one that
// accepted an upgrade died.
func TestTheNextLeaderFinishesWhatWasAccepted(t *testing.T) {
	d := newTestServer(t)
	d.create("inherited")
	d.succeeds(http.MethodPut, "/gum/v1/gr/inherited", `{"spec": {"driver": {"version": "2"}}, "mode": "recreate"}`)
	d.must(d.stop())
	d.letGo("inherited")
	mgr, err := ctrl.NewManager(apiserver.Shared(t).As(apiserver.Admin), ctrl.Options{Scheme: apiserver.Shared(t).Scheme, Metrics: server.Options{BindAddress: "0"}})
	d.must(err)
	leader := d.leader(clock.RealClock{})
	d.must(leader.SetupWithManager(mgr))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	d.until(func() string {
		if gr := d.gr("inherited"); gr == nil || gr.Spec.Driver.Version != "2" {
			return fmt.Sprintf("it is not created again: %+v", gr)
		}
		return ""
	})
	cancel()
	d.must(<-ended)
}

// Both requests read the gr before either of them writes.
func TestTwoUpgradesAtOnce(t *testing.T) {
	for _, mode := range []string{"inPlace", "recreate"} {
		t.Run(mode, func(t *testing.T) {
			var both sync.WaitGroup
			both.Add(2)
			d := newTestServer(t, func(o *Options) { o.Client = &meeting{Client: o.Client, both: &both} })
			old := d.create("contested-" + map[string]string{"inPlace": "a", "recreate": "b"}[mode])
			var later []<-chan sent
			for _, version := range []string{"2", "3"} {
				later = append(later, d.sendLater(t.Context(), http.MethodPut, "/gum/v1/gr/"+old.Name, fmt.Sprintf(`{"spec": {"driver": {"version": %q}}, "mode": %q}`, version, mode)))
			}
			statuses := []int{d.after(later[0]).status, d.after(later[1]).status}
			slices.Sort(statuses)
			if !slices.Equal(statuses, []int{http.StatusOK, http.StatusConflict}) {
				t.Errorf("answered %v, want one success and one conflict", statuses)
			}
		})
	}
}

// meeting holds the first read of a gr until there is a second one.
type meeting struct {
	client.Client
	both  *sync.WaitGroup
	mutex sync.Mutex
	reads int
}

func (m *meeting) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	err := m.Client.Get(ctx, key, o, options...)
	if _, ok := o.(*topsv1.GcuResource); !ok {
		return err
	}
	m.mutex.Lock()
	m.reads++
	first := m.reads <= 2
	m.mutex.Unlock()
	if first {
		m.both.Done()
		m.both.Wait()
	}
	return err
}

// A concurrent status write by the operator does not make an upgrade fail.
func TestAnUpgradeAndAStatusAtOnce(t *testing.T) {
	var once sync.Once
	var d *testServer
	d = newTestServer(t, func(o *Options) {
		o.Client = &between{Client: o.Client, do: func() { once.Do(func() { d.runs("reported") }) }}
	})
	d.create("reported")
	d.succeeds(http.MethodPut, "/gum/v1/gr/reported", `{"spec": {"driver": {"version": "2"}}}`)
	if now := d.gr("reported"); now.Spec.Driver.Version != "2" || now.Status.Phase != topsv1.PhaseRunning {
		t.Errorf("got %+v", now)
	}
}

// A deletion fails if an upgrade that recreates the gr is accepted after the deletion
// checked for one.
func TestADeletionAndARecreationAtOnce(t *testing.T) {
	other := newTestServer(t)
	d := newTestServer(t, func(o *Options) {
		o.Client = &between{Client: o.Client, do: func() {
			other.succeeds(http.MethodPut, "/gum/v1/gr/disputed", `{"spec": {"driver": {"version": "2"}}, "mode": "recreate"}`)
		}}
	})
	old := d.create("disputed")
	d.fails(http.MethodDelete, "/gum/v1/gr/disputed", `{"policy": "foreground"}`, http.StatusConflict, "an upgrade of disputed is under way")
	d.finish(other.leader(clock.RealClock{}), "disputed", nil)
	d.ends(http.MethodPut, "upgrade by recreation", old, true)
}

// The manager dies between the two writes of a resume; a repeated request completes it.
func TestAResumeThatWasCutShortIsDoneWhenAskedAgain(t *testing.T) {
	for last := 1; last <= 2; last++ {
		for _, sent := range []bool{false, true} {
			name := fmt.Sprintf("resumed-%d-%t", last, sent)
			m := &mortal{Client: apiserver.Shared(t).Client(t, apiserver.Operator), last: last, sent: sent}
			d := newTestServer(t, func(o *Options) { o.Client = m })
			d.create(name, func(gr *topsv1.GcuResource) { gr.Annotations = map[string]string{topsv1.AnnotationPaused: "true"} })
			rollout := &topsv1.DaemonRollout{}
			rollout.Namespace, rollout.Name, rollout.Spec.TargetRef = namespace, name, topsv1.TargetRef{Kind: "GcuResource", Name: name}
			d.make(rollout)
			d.halt(rollout)
			if got := d.send(http.MethodPost, "/gum/v1/gr/"+name+"/resume", ""); got.Result != ResultFailed || !m.isDead() {
				t.Errorf("%s: %s", name, got.body)
			}
			newTestServer(t).succeeds(http.MethodPost, "/gum/v1/gr/"+name+"/resume", "")
			d.must(d.admin.Get(context.Background(), client.ObjectKeyFromObject(rollout), rollout))
			if _, paused := d.gr(name).Annotations[topsv1.AnnotationPaused]; paused || rollout.Annotations[topsv1.AnnotationResume] == "" {
				t.Errorf("%s: paused %t, rollout %v", name, paused, rollout.Annotations)
			}
		}
	}
}

// The manager dies while an upgrade replaces one that is still watched.
func TestARecreationThatReplacesAWatchedOneLosesNothing(t *testing.T) {
	for last := 1; last <= 6; last++ {
		for _, sent := range []bool{false, true} {
			name := fmt.Sprintf("relayed-%d-%t", last, sent)
			first := newTestServer(t)
			first.create(name)
			first.succeeds(http.MethodPut, "/gum/v1/gr/"+name, `{"spec": {"driver": {"version": "1"}}, "mode": "recreate"}`)
			first.letGo(name)
			first.pass(first.leader(clock.RealClock{}), name)
			m := &mortal{Client: apiserver.Shared(t).Client(t, apiserver.Operator), last: last, sent: sent}
			d := newTestServer(t, func(o *Options) { o.Client = m })
			old := d.gr(name)
			got := d.send(http.MethodPut, "/gum/v1/gr/"+name, `{"spec": {"driver": {"version": "2"}}, "mode": "recreate"}`)
			d.finish(d.leader(clock.RealClock{}), name, m)
			if !m.isDead() {
				t.Fatalf("the story has no write %d", last)
			}
			begun := last > 2 || last == 2 && sent // the first write removes the watched one
			if !begun {
				d.runs(name)
			}
			d.finish(first.leader(clock.RealClock{}), name, nil)
			now := d.gr(name)
			if now == nil || now.DeletionTimestamp != nil || (now.UID == old.UID) == begun || (now.Spec.Driver.Version == "2") != begun || d.accepted(name) {
				t.Errorf("dead at write %d, which got through: %t: %+v", last, sent, now)
			}
			if got.Result == ResultSuccess && !begun {
				t.Errorf("the caller was told of a success: %s", got.body)
			}
		}
	}
}

// between runs a function before each patch and deletion.
type between struct {
	client.Client
	do func()
}

func (b *between) Delete(ctx context.Context, o client.Object, options ...client.DeleteOption) error {
	b.do()
	return b.Client.Delete(ctx, o, options...)
}

func (b *between) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	b.do()
	return b.Client.Patch(ctx, o, patch, options...)
}
