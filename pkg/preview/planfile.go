package preview

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// ForFile returns the question whose answer a plan file is made of: every wave is approved, and no plan is
// followed.
func ForFile(present, wanted *topsv1.GcuResource) Question {
	wanted = wanted.DeepCopy()
	delete(wanted.Annotations, topsv1.AnnotationUpgradePlan)
	return Question{Present: present, Wanted: wanted, Approved: true}
}

// ForPlan returns the question whose answer a plan is compared with: it is followed, and all of it approved.
func ForPlan(plan *planfile.Plan, present, wanted *topsv1.GcuResource) Question {
	q := ForFile(present, wanted)
	q.Plan = plan
	metav1.SetMetaDataAnnotation(&q.Wanted.ObjectMeta, topsv1.AnnotationUpgradePlan, plan.Object.Name)
	return q
}

// File returns the answer to a question of ForFile as a plan to be stored in a file, named after the time. It lacks the nodes in
// flight, whose operation is under way, and has an annotation that names them. wrong is why there is none, "" if there is one.
func (p *Preview) File(q *Question, now time.Time) (plan *topsv1.UpgradePlan, wrong string, err error) {
	if p.Blocked != "" {
		return nil, "there is nothing to plan: " + p.Blocked, nil
	}
	if why := p.Refused(); why != "" {
		return nil, why, nil
	}
	inFlight := ""
	if n := len(p.InFlight); n > 0 {
		inFlight = fmt.Sprintf("%s in flight: %s", message.Count(n, "node"), message.Names(p.InFlight))
	}
	if len(p.Nodes) == 0 && len(p.Offline()) == 0 {
		if inFlight != "" {
			return nil, fmt.Sprintf("gr %s has %s; no other node can be planned: wait for it, and write the plan then", q.Wanted.Name, inFlight), nil
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
	if inFlight != "" {
		plan.Annotations = map[string]string{topsv1.AnnotationInFlight: "not in this plan: " + inFlight}
	}
	plan.Name = strings.ToLower(q.Wanted.Name + "-" + now.UTC().Format("20060102-150405"))
	return plan, "", nil
}

// RevisionsOf compares the revisions of a plan with those of a question. It returns why the plan cannot be
// run, "" if they fit.
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
		return fmt.Sprintf("spec.wanted is revision %s, not %s, for which the plan is: write another plan", next, spec.Revision), nil
	case spec.From != "" && present != spec.From && present != spec.Revision:
		return fmt.Sprintf("gr %s was changed since the plan was written: it has revision %s, not %s; write another plan", q.Present.Name, present, spec.From), nil
	}
	return "", nil
}

// Refuses returns why the plan of a question of ForPlan cannot be run, "" if it can: on which of its nodes the
// policy does not allow it, or which tasks do not fit what the nodes need, and why.
func (p *Preview) Refuses(plan *planfile.Plan) string {
	if p.Blocked != "" {
		return "nothing can be upgraded: " + p.Blocked
	}
	if refused := p.notAllowed(); len(refused) > 0 { // the other nodes are left out
		var names []string
		for _, n := range refused {
			names = append(names, n.Name)
		}
		return fmt.Sprintf("the UpgradePolicy does not allow the plan on %s, as on %s: %s: remove from the plan what it does not allow", message.Names(names), names[0], refused[0].Message)
	}
	if why := p.Refused(); why != "" { // what is new goes to nodes that are not in the plan too
		return why
	}
	if err := plan.Check(p.Planned, upgradeplan.DefaultBook()); err != nil {
		return fmt.Sprintf("the cluster is no longer what the plan is for:\n%v\nwrite another plan, or remove these nodes from it", err)
	}
	return ""
}
