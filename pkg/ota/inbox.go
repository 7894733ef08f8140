package ota

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

	// turn holds one token: who takes it may use what follows.
	turn    chan struct{}
	journal *journal.Journal[entry]
	// entries are what the journal holds, oldest first.
	entries []entry
	// incomplete is true until entries that the journal may have lost were
	// taken over from status.requests.
	incomplete bool

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
	in := &Inbox{
		nodeName:   o.NodeName,
		agent:      topsv1.AgentStatus{Version: o.Version, StartTime: seconds(o.Clock.Now())},
		cluster:    o.Cluster,
		clock:      o.Clock,
		log:        o.Log,
		turn:       make(chan struct{}, 1),
		journal:    kept,
		entries:    entries,
		incomplete: incomplete,
		outOfStep:  make(chan struct{}, 1),
	}
	in.turn <- struct{}{}
	return in, nil
}

// seconds drops what a NodeUpgrade cannot carry.
func seconds(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// Pods returns the pods of this node as the API server has them now.
func (in *Inbox) Pods(ctx context.Context) (*corev1.PodList, error) {
	pods, err := in.cluster.Pods(ctx, in.nodeName)
	if err != nil {
		return nil, disconnected(fmt.Errorf("listing pods of node %s: %w", in.nodeName, err), "Repeat it when the connection is back.")
	}
	pods.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	if pods.Items == nil {
		pods.Items = []corev1.Pod{}
	}
	return pods, nil
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

	// The NodeUpgrade is read before the pod: a pod that is still there after
	// its task was seen to be final has really been left behind.
	nodeUpgrade, err := in.observe(ctx)
	if err != nil {
		return disconnected(err, wishNotKept)
	}
	pod, err := in.cluster.Pod(ctx, namespace, name)
	if apierrors.IsNotFound(err) {
		return refuse(ReasonPodMissing, "Pod %s/%s does not exist: GET /pods lists the pods of this node.", namespace, name)
	} else if err != nil {
		return disconnected(fmt.Errorf("getting Pod %s/%s: %w", namespace, name, err), wishNotKept)
	}
	verdict := decide(pod, in.nodeName)
	if verdict.Refusal != nil {
		return verdict.Refusal
	}
	e, found, refusal := admit(in.entries, nodeUpgrade.Status.Tasks, verdict, seconds(in.clock.Now()))
	if refusal != nil {
		return refusal
	}
	if found {
		if err := in.show(ctx, nodeUpgrade, in.entries); err != nil {
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
	if err := in.show(ctx, nodeUpgrade, trim(entries)); err != nil {
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

// observe returns the NodeUpgrade of this node, which it creates when there is
// none, and brings the entries up to date with it.
func (in *Inbox) observe(ctx context.Context) (*topsv1.NodeUpgrade, error) {
	nodeUpgrade, err := in.ensureNodeUpgrade(ctx)
	if err != nil {
		return nil, err
	}
	entries := in.entries
	if in.incomplete {
		entries = adopt(entries, nodeUpgrade.Status.Requests)
	}
	if err := in.keep(trim(settle(entries, nodeUpgrade.Status.Tasks))); err != nil {
		if in.incomplete {
			return nil, fmt.Errorf("taking over the requests shown before: %w", err)
		}
		// What is not recorded now can be observed again.
		in.log.Error(err, "Could not record what became of the requests")
		return nodeUpgrade, nil
	}
	in.incomplete = false
	return nodeUpgrade, nil
}

// keep makes entries what the journal holds. On an error it leaves the entries
// as they were; the journal may hold some of the new ones.
func (in *Inbox) keep(entries []entry) error {
	if err := in.journal.Change(changes(in.entries, entries)); err != nil {
		return err
	}
	in.entries = entries
	return nil
}

// show applies entries to the status of the NodeUpgrade when it says anything else.
func (in *Inbox) show(ctx context.Context, nodeUpgrade *topsv1.NodeUpgrade, entries []entry) error {
	wanted := topsv1.NodeUpgradeStatus{Agent: &in.agent, Requests: requests(entries)}
	if equality.Semantic.DeepEqual(nodeUpgrade.Status.Agent, wanted.Agent) &&
		equality.Semantic.DeepEqual(nodeUpgrade.Status.Requests, wanted.Requests) {
		return nil
	}
	in.log.V(4).Info("Applying the requests of this node", "requests", len(wanted.Requests), "before", len(nodeUpgrade.Status.Requests))
	err := in.cluster.ApplyStatus(ctx, FieldManager, &topsv1.NodeUpgrade{
		ObjectMeta: metav1.ObjectMeta{Name: nodeUpgrade.Name, UID: nodeUpgrade.UID},
		Status:     wanted,
	})
	if err != nil {
		return fmt.Errorf("applying status of NodeUpgrade %s: %w", nodeUpgrade.Name, err)
	}
	return nil
}

// ensureNodeUpgrade returns the NodeUpgrade that is owned by this node's Node
// object, and creates it when there is none.
func (in *Inbox) ensureNodeUpgrade(ctx context.Context) (*topsv1.NodeUpgrade, error) {
	node, err := in.cluster.Node(ctx, in.nodeName)
	if err != nil {
		return nil, fmt.Errorf("getting Node %s: %w", in.nodeName, err)
	}
	nodeUpgrade, err := in.cluster.NodeUpgrade(ctx, in.nodeName)
	if apierrors.IsNotFound(err) {
		nodeUpgrade, err = in.createNodeUpgrade(ctx, node)
	}
	if err != nil {
		return nil, fmt.Errorf("getting NodeUpgrade %s: %w", in.nodeName, err)
	}
	if err := usable(nodeUpgrade, node); err != nil {
		return nil, err
	}
	return nodeUpgrade, nil
}

func (in *Inbox) createNodeUpgrade(ctx context.Context, node *corev1.Node) (*topsv1.NodeUpgrade, error) {
	in.log.Info("Creating NodeUpgrade", "NodeUpgrade", node.Name, "nodeUID", node.UID)
	created, err := in.cluster.CreateNodeUpgrade(ctx, FieldManager, &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{
		Name: node.Name,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Node", Name: node.Name, UID: node.UID,
		}},
	}})
	if apierrors.IsAlreadyExists(err) {
		return in.cluster.NodeUpgrade(ctx, node.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("creating it: %w", err)
	}
	return created, nil
}

// usable returns an error when the NodeUpgrade is about to vanish, or was made
// for an earlier Node of the same name and will.
func usable(nodeUpgrade *topsv1.NodeUpgrade, node *corev1.Node) error {
	if nodeUpgrade.DeletionTimestamp != nil {
		return fmt.Errorf("NodeUpgrade %s is being deleted: wait until it is gone", nodeUpgrade.Name)
	}
	for _, owner := range nodeUpgrade.OwnerReferences {
		if owner.Kind == "Node" && owner.UID == node.UID {
			return nil
		}
	}
	return fmt.Errorf("NodeUpgrade %[1]s does not belong to the present Node %[1]s (UID %[2]s) but to an earlier one: wait until it is removed, or delete it with kubectl delete nodeupgrade %[1]s",
		nodeUpgrade.Name, node.UID)
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
