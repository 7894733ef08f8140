package daemonupdater

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/gating"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/metrics"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/notification"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/podreplace"
)

// reportInterval is the minimum time between two status writes of one group that leave the ledger
// unchanged; ledger changes are stored at once. moveInterval is the minimum if only a few nodes moved on as
// expected, and for moveInterval after a write at reportInterval: nodes that come and go all the time do not
// cause a write every second.
const (
	reportInterval = time.Second
	moveInterval   = 7 * time.Second
)

// cacheLag is how long after its creation an object may be missing from the cache before it is
// read live.
const cacheLag = 2 * time.Second

// Notices delivers notifications of entries in the records of rollouts. It never blocks.
type Notices interface {
	// Offer hands over all pending notifications of a group, as stored; none if the group is gone.
	Offer(g observed.Group, pending []notification.Message)
	// Delivered reports whether this process delivered a notification.
	Delivered(id string) bool
	// Woken receives a group after a delivery, so that its record is written again.
	Woken() <-chan observed.Group
}

// ledgerStore stores the ledgers of groups in the status of their DaemonRollouts.
type ledgerStore struct {
	access.Cluster
	namespace string
	recorder  events.EventRecorder
	metrics   *metrics.Metrics
	gate      gating.Mode
	// notices delivers the notifications, nil for none.
	notices Notices
	// written is, per group, the rollout as this process last wrote it, with the versions that
	// the cache may still show.
	written map[observed.Group]writtenRollout
	// nameTakenBy has, per group whose name is taken, the UID of the DaemonRollout that has the name.
	nameTakenBy map[observed.Group]types.UID
}

// writtenRollout is a DaemonRollout as written.
type writtenRollout struct {
	// basedOn are the resourceVersions replaced by this write and those before it. The cache may
	// still show any of them.
	basedOn []string
	rollout *topsv1.DaemonRollout
	at      time.Time
	// promptly is when a status was last written at reportInterval.
	promptly time.Time
}

// read reads the group's DaemonRollout as last written: from memory while the cache still shows
// a replaced version, otherwise from the cache. A group without one gets an empty one, to be
// created. unseen reports that this process created it, but the cache does not show it.
func (l ledgerStore) read(ctx context.Context, s *observed.State, now time.Time) (unseen bool, err error) {
	key := s.Group.RolloutKey(l.namespace)
	var cached topsv1.DaemonRollout
	err = l.Get(ctx, key, &cached)
	if denial.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("getting DaemonRollout %s: %w", key, err)
	}
	if last, ok := l.written[s.Group]; ok && slices.Contains(last.basedOn, cached.ResourceVersion) {
		overwritten, err := l.wasOverwritten(ctx, last, now)
		if err != nil || !overwritten {
			s.TakeRollout(key, last.rollout.DeepCopy())
			return cached.ResourceVersion == "", err
		}
		delete(l.written, s.Group)
	}
	if err == nil {
		l.caughtUp(s.Group)
	}
	s.TakeRollout(key, &cached)
	return false, nil
}

// refuse reports by an event that the name of a group is taken: the group has no rollout of its own for a condition.
// The event is sent once per DaemonRollout that has the name, not at each retry.
func (l ledgerStore) refuse(s *observed.State, taken *rollout.Blocked) error {
	if by, said := l.nameTakenBy[s.Group]; !said || by != s.TakenBy.UID {
		l.nameTakenBy[s.Group] = s.TakenBy.UID
		l.recorder.Eventf(report.Regarding(s), s.TakenBy, corev1.EventTypeWarning, taken.Reason, "Rollout", "%s", taken.Message)
	}
	return errors.New(taken.Message)
}

// wasOverwritten reports whether a rollout that the cache should show is no longer stored as this process wrote
// it: a user deleted it, another manager wrote it, or etcd was restored from a backup.
func (l ledgerStore) wasOverwritten(ctx context.Context, last writtenRollout, now time.Time) (bool, error) {
	if now.Sub(last.at) < cacheLag {
		return false, nil
	}
	var live topsv1.DaemonRollout
	key := client.ObjectKeyFromObject(last.rollout)
	err := l.Live.Get(ctx, key, &live)
	if denial.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("looking for DaemonRollout %s: %w", key, err)
	}
	return err != nil || live.UID != last.rollout.UID || !equality.Semantic.DeepEqual(live.Status, last.rollout.Status), nil
}

// store writes the status of the group: at once if the ledger changed, otherwise after an
// interval, in which case it returns how long to wait. Events, and notifications of stored entries, are sent after the
// write.
func (l ledgerStore) store(ctx context.Context, p *pass.Pass, rb report.Rollback) (wait time.Duration, err error) {
	stored, wait, err := l.write(ctx, p, rb)
	if err == nil && l.notices != nil {
		pending, failed := notification.Pending(stored)
		if failed != nil {
			log.FromContext(ctx).Error(failed, "Notifications are not sent")
		}
		l.notices.Offer(p.Group, pending)
	}
	return wait, err
}

// write is store without notifications. It returns the DaemonRollout as stored.
func (l ledgerStore) write(ctx context.Context, p *pass.Pass, rb report.Rollback) (stored *topsv1.DaemonRollout, wait time.Duration, err error) {
	before, d := p.Rollout.Status, p.Decision
	d.Halted = rb.Explain(d.Halted)
	status := report.Status(before, p.Rollout.Generation, p.In, d)
	rb.Remember(&status, p.State, p.In, d)
	report.Settle(&status, report.Gate{Mode: l.gate, Waiting: p.Fleet.NodesAtGate(), Denied: p.Fleet.DeniedAtGate()}, p.State, p.In, d)
	report.Record(&status, p.State, p.In, d, l.notices != nil)
	status.Record = notification.Unmark(p.Rollout, status.Record, l.notices != nil, l.isDelivered)
	if equality.Semantic.DeepEqual(before, status) {
		return p.Rollout, 0, nil
	}
	last := l.written[p.Group]
	interval, promptly := reportInterval, p.In.Now
	if report.OnlyMoved(&before, &status) || p.In.Now.Sub(last.promptly).Abs() < moveInterval {
		interval, promptly = moveInterval, last.promptly
	}
	switch elapsed := p.In.Now.Sub(last.at); {
	case report.MustPrecede(&before, &status):
		promptly = last.promptly
	case elapsed < interval:
		return p.Rollout, interval - elapsed, nil
	}
	basedOn := p.Rollout.ResourceVersion
	next := p.Rollout.DeepCopy()
	if basedOn == "" {
		if err := l.Create(ctx, next); err != nil {
			return nil, 0, fmt.Errorf("creating DaemonRollout %s: %w", client.ObjectKeyFromObject(next), err)
		}
	}
	next.Status = status
	if err := l.Status().Update(ctx, next, access.StrictFields); err != nil {
		delete(l.written, p.Group) // it may have been deleted, and then the copy in memory is useless
		return nil, 0, fmt.Errorf("storing the ledger of DaemonRollout %s: %w", client.ObjectKeyFromObject(next), err)
	}
	l.written[p.Group] = writtenRollout{basedOn: l.replaced(p.Group, basedOn), rollout: next, at: p.In.Now, promptly: promptly}
	l.metrics.Count(p.Group, p.In.Ledger, d)
	if rb := status.Rollback; rb != nil && (before.Rollback == nil || !before.Rollback.Time.Equal(&rb.Time)) {
		l.metrics.RolledBack(p.Group)
	}
	// Events on the same object with the same reason are aggregated and shown with the text of
	// the first. The status as related object keeps them separate.
	for _, e := range report.Events(&before, &status) {
		l.recorder.Eventf(report.Regarding(p.State), next, e.Type, e.Reason, "Rollout", "%s", e.Message)
	}
	return next, 0, nil
}

// isDelivered reports whether this process delivered a notification.
func (l ledgerStore) isDelivered(id string) bool { return l.notices != nil && l.notices.Delivered(id) }

// replaced returns the resourceVersions that a write of a rollout and earlier writes replaced.
func (l ledgerStore) replaced(g observed.Group, version string) []string {
	if last, ok := l.written[g]; ok && last.rollout.ResourceVersion == version {
		return append(last.basedOn, version)
	}
	return []string{version}
}

// caughtUp drops the versions replaced by earlier writes of a rollout: the cache shows the last
// write, and does not go back.
func (l ledgerStore) caughtUp(g observed.Group) {
	if last, ok := l.written[g]; ok {
		last.basedOn = nil
		l.written[g] = last
	}
}

// stillDecides returns the DaemonRollout as this pass left it, or podreplace.ErrChanged if it has changed since. Then another manager
// has taken over, because this one was suspended past its lease.
func (l ledgerStore) stillDecides(ctx context.Context, p *pass.Pass) (*topsv1.DaemonRollout, error) {
	known := p.Rollout
	if last, ok := l.written[p.Group]; ok && slices.Contains(last.basedOn, known.ResourceVersion) {
		known = last.rollout
	}
	var live topsv1.DaemonRollout
	err := l.Live.Get(ctx, client.ObjectKeyFromObject(known), &live)
	if denial.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading DaemonRollout %s again: %w", client.ObjectKeyFromObject(known), err)
	}
	if err != nil || live.ResourceVersion != known.ResourceVersion {
		return nil, podreplace.ErrChanged
	}
	return &live, nil
}
