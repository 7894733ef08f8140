package upgradeapi

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/plaintext"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// planFiles serves plans to be edited, and runs them (contract statement 93): what kubectl gcu plan -o yaml and
// kubectl gcu upgrade --plan do.
type planFiles struct {
	*plans
	upgrades *upgrades
	access   Access
}

// get returns an upgrade as a plan file.
func (p *planFiles) get(ctx context.Context, c call) (any, error) {
	upgrade, asYAML, err := planFileIn(c.query)
	if err != nil {
		return nil, err
	}
	return p.write(ctx, c, upgrade, asYAML)
}

// post is get for the body of a PUT.
func (p *planFiles) post(ctx context.Context, c call) (any, error) {
	asYAML, err := onlyFormatIn(c.query)
	if err != nil {
		return nil, err
	}
	upgrade, err := request.ReadUpgrade(c.body)
	if err != nil {
		return nil, err
	}
	return p.write(ctx, c, upgrade, asYAML)
}

// write returns a plan file: its content, or the file itself as YAML. It changes nothing.
func (p *planFiles) write(ctx context.Context, c call, upgrade request.Upgrade, asYAML bool) (any, error) {
	present, wanted, err := p.wanted(ctx, c, upgrade, (*request.Desired).SpecAndLimit)
	if err != nil {
		return nil, err
	}
	release, err := p.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	plan, wrong, err := p.planner.PlanFile(ctx, present, wanted)
	switch {
	case err != nil:
		return nil, err
	case wrong != "":
		return nil, request.Conflict("%s", wrong)
	}
	content, err := planfile.Content(plan)
	if err != nil || !asYAML {
		return content, err
	}
	text, err := plaintext.YAML(content)
	return yamlFile(text), err
}

// run has a gr follow the plan in the body, if it keeps the rules and fits the cluster. The plan is stored first:
// until the gr names it, it does nothing, and the same request again completes it.
func (p *planFiles) run(ctx context.Context, c call) (any, error) {
	switch {
	case p.blueprintsOnly:
		return nil, request.Refuse(http.StatusForbidden, "without authentication this API runs no plans: a plan holds a spec, which may come from any client")
	case p.planner == nil:
		return nil, noPlanner()
	}
	plan, desired, err := request.ReadPlan(c.body, c.name)
	if err != nil {
		return nil, err
	}
	checked, err := p.now(ctx, c, plan)
	if err != nil {
		return nil, err
	}
	if err := p.check(ctx, c, plan, checked.Gr, desired); err != nil {
		return nil, err
	}
	stored, err := p.store(ctx, c, plan, checked)
	if err != nil {
		return nil, err
	}
	result, err := p.upgrades.inPlace(ctx, c, checked.Gr, desired)
	if c.dryRun {
		return result, err
	}
	return result, p.followed(ctx, c, plan, stored, err)
}

// followed returns the error of writing the gr, or what it follows now if someone else wrote it or its plan at the same time.
func (p *planFiles) followed(ctx context.Context, c call, plan *planfile.Plan, stored *topsv1.UpgradePlan, err error) error {
	now, unread := p.now(ctx, c, plan)
	if unread != nil {
		return err
	}
	if overtaken := planfile.Overtaken(now, stored, err); overtaken != nil {
		return request.Conflict("%s", overtaken)
	}
	return err
}

// check returns an error unless a plan fits the cluster.
func (p *planFiles) check(ctx context.Context, c call, plan *planfile.Plan, present *topsv1.GcuResource, desired *request.Desired) error {
	if err := request.Replaceable(present); err != nil {
		return err
	}
	wanted, err := p.predict(ctx, c, present, desired)
	if err != nil {
		return err
	}
	release, err := p.turnToCheck(ctx)
	if err != nil {
		return err
	}
	defer release()
	wrong, err := p.planner.CheckPlan(ctx, plan, present, wanted)
	if err == nil && wrong != "" {
		err = request.Conflict("%s", wrong)
	}
	return err
}

// now returns what is present of a plan and its gr, which is read last.
func (p *planFiles) now(ctx context.Context, c call, plan *planfile.Plan) (now planfile.Current, err error) {
	now.Stored = &topsv1.UpgradePlan{}
	if err = p.Get(ctx, client.ObjectKeyFromObject(plan.Object), now.Stored); apierrors.IsNotFound(err) {
		now.Stored = nil
	} else if err != nil {
		return now, fmt.Errorf("reading UpgradePlan %s: %w", plan.Object.Name, err)
	}
	now.Gr, err = p.present(ctx, c.name)
	return now, err
}

// store writes the UpgradePlan with the rights of the caller, and returns it. It starts over when the operator reports on it meanwhile, and
// refuses when someone else wrote it, or ended it, since the plan was checked.
func (p *planFiles) store(ctx context.Context, c call, plan *planfile.Plan, checked planfile.Current) (stored *topsv1.UpgradePlan, err error) {
	err = retry.OnError(retry.DefaultBackoff, denial.IsConflict, func() (err error) {
		stored, err = p.put(ctx, c, plan, checked)
		return err
	})
	return stored, err
}

func (p *planFiles) put(ctx context.Context, c call, plan *planfile.Plan, checked planfile.Current) (*topsv1.UpgradePlan, error) {
	now, err := p.now(ctx, c, plan)
	if err != nil {
		return nil, err
	}
	verb := "update"
	if now.Stored == nil {
		verb = "create"
	}
	if err := authorize(ctx, p.access, c, onPlan(verb, plan.Object.Name)); err != nil {
		return nil, err
	}
	next, err := plan.Stored(now, checked, c.flag)
	if err != nil {
		return nil, request.Conflict("%s", err.Error())
	}
	ctx, writer, err := p.writer(ctx, c.user)
	if err != nil {
		return nil, err
	}
	log.FromContext(ctx).Info("Storing UpgradePlan", "UpgradePlan", next.Name, "nodes", plan.Nodes(), "batches", len(next.Spec.Batches), "dryRun", c.dryRun)
	if now.Stored == nil {
		return next, writer.Create(ctx, next, c.createOptions()...)
	}
	return next, writer.Patch(ctx, next, locked(now.Stored), c.patchOptions()...)
}
