package ota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/journal"
)

// Options configure an Inbox. All fields are required.
type Options struct {
	// NodeName is the name of this node.
	NodeName string
	// StateDirectory holds the journal; it is made when it does not exist.
	StateDirectory string
	// Version of the agent, for status.agent.
	Version string
	Cluster Cluster
	Puller  Puller
	Clock   clock.Clock
	Log     logr.Logger
}

// Inbox takes the requests of one node, keeps them in the journal and shows
// them to the operator. Its methods may be called from many goroutines; one of
// them at a time changes anything.
type Inbox struct {
	nodeName string
	agent    topsv1.AgentStatus
	cluster  Cluster
	clock    clock.Clock
	log      logr.Logger

	seenNode *seenNode
	pulls    *pulls

	// turn holds one token: who takes it may use what follows.
	turn    chan struct{}
	journal *journal.Journal[entry]
	// entries are what the journal holds, oldest first.
	entries []entry
	// incomplete is true until what the journals may have lost was taken over from
	// the status of the NodeUpgrade.
	incomplete bool
	book       book
	// refreshed is when the pods were last looked at for when the API server is away.
	refreshed time.Time

	// board is what everybody may read at any time.
	board *board

	// outOfStep gets a token when the NodeUpgrade may not show what the journal holds.
	outOfStep chan struct{}
	// seen is the part of the NodeUpgrade that Seen was told last.
	seen view
}

// NewInbox opens the journal. It returns an error when nothing could be
// recorded in the state directory; it does not use the cluster.
func NewInbox(o Options) (*Inbox, error) {
	kept, entries, incomplete, err := openJournal(o.StateDirectory, o.Log)
	if err != nil {
		return nil, err
	}
	book, lost, err := openBook(o.StateDirectory, o.Log)
	if err != nil {
		return nil, err
	}
	seenNode, err := openSeen(o.StateDirectory, o.Log)
	if err != nil {
		return nil, err
	}
	in := &Inbox{
		nodeName:   o.NodeName,
		agent:      topsv1.AgentStatus{Version: o.Version, StartTime: seconds(o.Clock.Now())},
		cluster:    o.Cluster,
		clock:      o.Clock,
		log:        o.Log,
		turn:       make(chan struct{}, 1),
		journal:    kept,
		entries:    entries,
		incomplete: incomplete || lost,
		book:       book,
		seenNode:   seenNode,
		board:      newBoard(),
		outOfStep:  make(chan struct{}, 1),
	}
	in.pulls = newPulls(o.Puller, func(id string, err error) {
		if err != nil {
			in.log.Error(err, "Could not pull images that were asked for at the node", "pull", id)
		}
		in.wake()
	})
	in.turn <- struct{}{}
	in.publish(nil)
	return in, nil
}

// seconds drops what a NodeUpgrade cannot carry.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// Pods returns the pods of this node: as the API server has them now, or, while it is
// away, as they were seen at stale; nil when they are live.
func (in *Inbox) Pods(ctx context.Context) (pods *corev1.PodList, stale *metav1.Time, err error) {
	now, err := in.look(ctx, false)
	if err != nil {
		last, lost := in.seenNode.last()
		if lost != nil {
			return nil, nil, disconnected(errors.Join(err, lost), "Repeat it when the connection is back.")
		}
		now, stale = last, &last.Time
	}
	pods = &now.Pods
	in.setImageReady(pods)
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if pods.Items == nil {
		pods.Items = []corev1.Pod{}
	}
	return pods, stale, nil
}

// Ask requests that a pod of this node be replaced by its newest revision. It
// returns nil when the request is durable on this node and shown to the
// operator, also when it was so before; otherwise a *Refusal, and then a new
// request is not kept.
func (in *Inbox) Ask(ctx context.Context, namespace, name string) error {
	if refusal := validateNames(namespace, name); refusal != nil {
		return refusal
	}
	if err := in.takeTurn(ctx); err != nil {
		return disconnected(err, wishNotKept)
	}
	defer in.endTurn()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()

	// The NodeUpgrade is read before the pod: a pod that is still there after
	// its task was seen to be final has really been left behind.
	nodeUpgrade, err := in.observe(ctx)
	if err != nil {
		return disconnected(err, wishNotKept)
	}
	pod, err := in.cluster.Pod(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return podMissing(namespace, name)
	} else if err != nil {
		return disconnected(fmt.Errorf("getting Pod %s/%s: %w", namespace, name, err), wishNotKept)
	}
	verdict := decide(pod, in.nodeName)
	if verdict.Refusal != nil {
		return verdict.Refusal
	}
	if in.book.hold != nil {
		return nodeHeld(in.book.hold)
	}
	if in.pulls.isUnderWay(pullID(verdict)) {
		return refuse(ReasonImageNotReady, "The images of the newest revision of pod %s/%s are being pulled: repeat it when PodImageReady in GET /pods is not %s any more.", namespace, name, topsv1.ReasonWaitPullImage)
	}
	e, found, refusal := admit(in.entries, nodeUpgrade.Status.Tasks, verdict, seconds(in.clock.Now()))
	if refusal != nil {
		return refusal
	}
	if found {
		if err := in.show(ctx, nodeUpgrade, in.showable(nodeUpgrade, in.entries)); err != nil {
			return disconnected(err, wishKeptSince)
		}
		return nil
	}
	return in.accept(ctx, nodeUpgrade, e)
}

// accept makes a new request durable and shows it.
func (in *Inbox) accept(ctx context.Context, nodeUpgrade *topsv1.NodeUpgrade, e entry) error {
	in.log.Info("Recording upgrade request", "request", e.Request.ID,
		"Pod", e.Request.Pod.Namespace+"/"+e.Request.Pod.Name, "revision", e.Request.Revision)
	entries := slices.Concat(in.entries, []entry{e})
	if err := in.keep(entries); err != nil {
		in.withdraw(e)
		return refuse(ReasonNotRecorded, "The request could not be recorded on this node: %v. Make room or repair the disk, then repeat it.", err)
	}
	if err := in.show(ctx, nodeUpgrade, trim(in.showable(nodeUpgrade, entries))); err != nil {
		in.withdraw(e)
		return disconnected(err, wishNotKept)
	}
	if err := in.keep(trim(entries)); err != nil {
		in.log.Error(err, "Could not remove old requests from the journal")
	}
	return nil
}

// withdraw takes an entry that was not accepted out of the journal again. The
// NodeUpgrade may show it all the same, so the loop is told to look.
func (in *Inbox) withdraw(e entry) {
	in.log.Info("Withdrawing upgrade request", "request", e.Request.ID)
	in.entries = slices.DeleteFunc(slices.Clone(in.entries), func(kept entry) bool { return kept.Request.ID == e.Request.ID })
	if err := in.journal.Change(nil, []string{e.Request.ID}); err != nil {
		in.log.Error(err, "Could not take the request out of the journal: it may come back when the agent restarts")
	}
	in.wake()
}

var errBusy = errors.New("the requests before this one are not yet done")

// takeTurn waits for the turn as long as ctx allows.
func (in *Inbox) takeTurn(ctx context.Context) error {
	select {
	case <-in.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", errBusy, ctx.Err())
	}
}

func (in *Inbox) endTurn() { in.turn <- struct{}{} }
