package daemonupdater

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/askedby"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/access"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/pass"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/ownership"
	"github.com/topsops/gcu-operator/pkg/podreplace"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// groupReader reads everything that a pass over a group depends on, except its nodes.
type groupReader struct {
	access.Cluster
	ledgers      ledgerStore
	book         *upgradeplan.LogicBook
	operatorNode string
	stateTimes   *daemonset.StateTimes
}

// read starts a pass. Of an unmanaged group it reads only the DaemonSets and the rollout.
func (r groupReader) read(ctx context.Context, g observed.Group, now time.Time) (*pass.Pass, error) {
	p := &pass.Pass{State: &observed.State{Group: g, OperatorNode: r.operatorNode, StateTimes: r.stateTimes}}
	gr, err := r.GcuResource(ctx, g)
	if err != nil {
		return nil, err
	}
	if p.Members, err = r.members(ctx, g, &gr); err != nil || len(p.Members) == 0 {
		return p, err
	}
	if p.RolloutUnseen, err = r.ledgers.read(ctx, p.State, now); err != nil {
		return nil, err
	}
	if p.MayRestart() {
		if p.NeedsRestart, err = r.AnyNeedsRestart(ctx); err != nil {
			return nil, err
		}
	}
	if p.Unmanaged() {
		return p, nil
	}
	if taken := p.NameTaken(); taken != nil {
		return nil, r.ledgers.refuse(p.State, taken)
	}
	delete(r.ledgers.nameTakenBy, g)
	for i := range p.Members {
		if p.Members[i].Revisions, err = r.revisions(ctx, p.Members[i]); err != nil {
			return nil, err
		}
	}
	if p.Policy, err = access.Policy(ctx, r, p.PolicyName()); err != nil {
		return nil, err
	}
	if p.Plan, err = access.Plan(ctx, r, observed.PlanName(p.State), r.book); err != nil {
		return nil, err
	}
	p.Asked = askedby.Of(gr.Annotations)
	if g.Kind == observed.KindDaemonSet {
		p.Asked = askedby.Of(p.Members[0].DaemonSet.Annotations)
	}
	p.Ending = g.Kind == observed.KindGcuResource && p.EndsWith(&gr)
	return p, nil
}

// members returns the members of a group, in the order of replacement. gr is its GcuResource, empty if there is none.
func (r groupReader) members(ctx context.Context, g observed.Group, gr *topsv1.GcuResource) ([]observed.Member, error) {
	var all appsv1.DaemonSetList
	switch g.Kind {
	case observed.KindNode:
		return nil, nil
	case observed.KindDaemonSet:
		var ds appsv1.DaemonSet
		err := r.Get(ctx, client.ObjectKey{Namespace: g.Namespace, Name: g.Name}, &ds)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("getting DaemonSet %s: %w", g, err)
		}
		all.Items = []appsv1.DaemonSet{ds}
	default:
		if err := r.List(ctx, &all, client.MatchingLabels{topsv1.LabelGcuResource: g.Name}); err != nil {
			return nil, fmt.Errorf("listing DaemonSets of GcuResource %s: %w", g, err)
		}
	}
	made, err := ownership.Reader{Reader: r, Live: r.Live, Namespace: r.ledgers.namespace}.CreatedBy(ctx, gr, g.DaemonSets(all.Items, gr.UID))
	if err != nil {
		return nil, err
	}
	var members []observed.Member
	for _, ds := range made {
		members = append(members, observed.Member{DaemonSet: ds})
	}
	return members, nil
}

func (r groupReader) revisions(ctx context.Context, m observed.Member) ([]*appsv1.ControllerRevision, error) {
	var revisions appsv1.ControllerRevisionList
	if err := r.List(ctx, &revisions, client.InNamespace(m.DaemonSet.Namespace),
		client.MatchingFields{controllerUID: string(m.DaemonSet.UID)}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ControllerRevisions of DaemonSet %s: %w", m.Key(), err)
	}
	return observed.ByName(revisions.Items), nil
}

// confirmMembersGone confirms live that the DaemonSets whose slots are given back because they left the group are not in
// it: the cache may show that a DaemonSet was deleted, but not yet that it was recreated and adopted its pods. It returns
// podreplace.ErrChanged if one may be back.
func (r groupReader) confirmMembersGone(ctx context.Context, p *pass.Pass) error {
	left := leftUnderSlots(p)
	for _, key := range left {
		var live, cached appsv1.DaemonSet
		if err := r.Live.Get(ctx, key, &live); denial.IgnoreNotFound(err) != nil {
			return fmt.Errorf("looking for DaemonSet %s: %w", key, err)
		}
		if err := r.Get(ctx, key, &cached); denial.IgnoreNotFound(err) != nil {
			return fmt.Errorf("getting DaemonSet %s: %w", key, err)
		}
		if cached.ResourceVersion != live.ResourceVersion {
			return fmt.Errorf("DaemonSet %s: %w", key, podreplace.ErrChanged)
		}
	}
	if len(left) == 0 {
		return nil
	}
	gr, err := r.GcuResource(ctx, p.Group)
	if err != nil {
		return err
	}
	members, err := r.members(ctx, p.Group, &gr) // the cache may have changed since the pass began
	if err != nil {
		return err
	}
	for _, m := range members {
		if slices.Contains(left, client.ObjectKeyFromObject(m.DaemonSet)) {
			return fmt.Errorf("DaemonSet %s: %w", m.Key(), podreplace.ErrChanged)
		}
	}
	return nil
}

// leftUnderSlots returns the DaemonSets that have left the group and whose slots are given back.
func leftUnderSlots(p *pass.Pass) (left []client.ObjectKey) {
	members := make(map[string]bool, len(p.Members))
	for i := range p.Members {
		members[p.Members[i].Key()] = true
	}
	for i := range p.In.Ledger.Slots {
		slot := &p.In.Ledger.Slots[i]
		kept := func(s rollout.Slot) bool { return s.Node == slot.Node && s.UID == slot.UID }
		for _, member := range slot.Members {
			if members[member] || slices.ContainsFunc(p.Decision.Ledger.Slots, kept) {
				continue
			}
			namespace, name, _ := strings.Cut(member, "/")
			if key := (client.ObjectKey{Namespace: namespace, Name: name}); !slices.Contains(left, key) {
				left = append(left, key)
			}
		}
	}
	return left
}
