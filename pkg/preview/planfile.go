package preview

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// ForFile returns the question whose answer a plan file is made from: every wave is approved, no plan is followed,
// and nothing is paused.
func ForFile(present, wanted *topsv1.GcuResource) Question {
	wanted = wanted.DeepCopy()
	delete(wanted.Annotations, topsv1.AnnotationUpgradePlan)
	delete(wanted.Annotations, topsv1.AnnotationPaused)
	return Question{Present: present, Wanted: wanted, Approved: true}
}

// ForPlan returns the question whose answer a plan is compared with: the plan is followed, and all its batches are
// approved.
func ForPlan(plan *planfile.Plan, present, wanted *topsv1.GcuResource) Question {
	q := ForFile(present, wanted)
	q.Plan = plan
	metav1.SetMetaDataAnnotation(&q.Wanted.ObjectMeta, topsv1.AnnotationUpgradePlan, plan.Object.Name)
	return q
}

// File returns the answer to a question of ForFile as a plan to be stored in a file, with the time in its name. An annotation
// names the nodes that it lacks, see notPlanned. wrong is why there is no plan, "" if there is one.
func (p *Preview) File(q *Question, now time.Time) (plan *topsv1.UpgradePlan, wrong string, err error) {
	if p.Blocked != "" {
		return nil, "there is nothing to plan: " + p.Blocked, nil
	}
	if why := p.Refused(); why != "" {
		return nil, why, nil
	}
	lacks := p.notPlanned()
	if len(p.Nodes) == 0 && len(p.Offline()) == 0 {
		if lacks != "" {
			return nil, fmt.Sprintf("no node of gr %s can be planned now: %s", q.Wanted.Name, lacks), nil
		}
		return nil, fmt.Sprintf("there is nothing to plan: no node of gr %s is upgraded", q.Wanted.Name), nil
	}
	spec, err := planfile.Of(upgradeplan.DefaultBook(), p.Plan, p.Planned, p.Offline(), int32(p.UsualSeconds))
	if err != nil {
		return nil, "", err
	}
	spec.GcuResource = q.Wanted.Name
	if spec.From, err = revision.Name(q.Present); err != nil {
		return nil, "", err
	}
	if spec.Revision, err = revision.Name(q.Wanted); err != nil {
		return nil, "", err
	}
	raw, err := json.Marshal(q.Wanted.Spec)
	if err != nil {
		return nil, "", fmt.Errorf("writing the spec of gr %s: %w", q.Wanted.Name, err)
	}
	spec.Wanted = &runtime.RawExtension{Raw: raw}
	plan = &topsv1.UpgradePlan{TypeMeta: metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: planfile.Kind}, Spec: spec}
	if lacks != "" {
		plan.Annotations = map[string]string{topsv1.AnnotationNotPlanned: "not in this plan: " + lacks}
	}
	plan.Name = strings.ToLower(q.Wanted.Name + "-" + now.UTC().Format("20060102-150405"))
	return plan, "", nil
}

// notPlanned returns which nodes a plan file lacks although they are not at their targets, "" for none: nodes in flight,
// which are being upgraded already, and nodes that wait for something other than to be online. Of many it names the first.
func (p *Preview) notPlanned() string {
	var says []string
	say := func(nodes []string, why string) {
		if len(nodes) > 0 {
			says = append(says, fmt.Sprintf("%s %s: %s", message.Count(len(nodes), "node"), why, message.Names(nodes)))
		}
	}
	say(p.InFlight, "in flight")
	named := map[string]bool{}
	for _, name := range slices.Concat(p.InFlight, p.Offline()) { // offline nodes are in the file
		named[name] = true
	}
	for i := range p.Nodes { // a pinned node may be in the file, for another component
		named[p.Nodes[i].Name] = true
	}
	var reasons []string
	waiting := map[string][]string{}
	for _, n := range slices.Concat(p.LaterNotAllowed, p.Left) {
		isBehind := p.Behind[n.Name] || len(p.Planned[n.Name].Changed) > 0
		if named[n.Name] || !isBehind || n.Reason == string(rollout.ReasonLeftOut) {
			continue
		}
		named[n.Name] = true
		if waiting[n.Reason] == nil {
			reasons = append(reasons, n.Reason)
		}
		waiting[n.Reason] = append(waiting[n.Reason], n.Name)
	}
	for _, reason := range reasons {
		say(waiting[reason], "waiting ("+reason+")")
	}
	return strings.Join(says, "; ")
}

// RevisionsOf compares the revisions of a plan with those of a question. wrong is why the plan cannot be
// run, "" if they match.
func (q *Question) RevisionsOf(plan *planfile.Plan) (wrong string, err error) {
	spec := &plan.Object.Spec
	present, err := revision.Name(q.Present)
	if err != nil {
		return "", err
	}
	next, err := revision.Name(q.Wanted)
	if err != nil {
		return "", err
	}
	switch {
	case next != spec.Revision:
		return fmt.Sprintf("spec.wanted is revision %s, but the plan is for %s: write another plan", next, spec.Revision), nil
	case spec.From != "" && present != spec.From && present != spec.Revision:
		return fmt.Sprintf("gr %s was changed since the plan was written: it has revision %s, not %s; write another plan", q.Present.Name, present, spec.From), nil
	}
	return "", nil
}

// Refuses returns why a plan cannot be run, "" if it can, from the answer to its question of ForPlan: on which of its
// nodes the policy does not allow it, or which tasks do not match what the nodes need.
func (p *Preview) Refuses(plan *planfile.Plan) string {
	if p.Blocked != "" {
		return "nothing can be upgraded: " + p.Blocked
	}
	refused := p.notAllowed() // the other nodes are left out
	for _, n := range p.LaterNotAllowed {
		if _, has := plan.Batch(n.Name); has {
			refused = append(refused, n)
		}
	}
	if len(refused) > 0 {
		var names []string
		for _, n := range refused {
			names = append(names, n.Name)
		}
		return fmt.Sprintf("the UpgradePolicy does not allow the plan on %s, as on %s: %s: remove from the plan what it does not allow", message.Names(names), names[0], refused[0].Message)
	}
	if why := p.Refused(); why != "" { // new components are deployed on nodes outside the plan too
		return why
	}
	if err := plan.Check(p.Planned, upgradeplan.DefaultBook()); err != nil {
		return fmt.Sprintf("the plan no longer matches the cluster:\n%v\nwrite another plan, or remove these nodes from it", err)
	}
	return ""
}
