package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// readPlan reads a file with a plan.
func readPlan(in io.Reader, file string) (*planfile.Plan, error) {
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, usageError("%w", err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, planfile.MaxBytes+1))
	if err != nil {
		return nil, usageError("reading %s: %w", file, err)
	}
	plan, err := planfile.Parse(text, upgradeplan.DefaultBook())
	if err != nil {
		return nil, refused("%s: %w", file, err)
	}
	return plan, nil
}

// plannedUpgrade is a plan that fits the cluster.
type plannedUpgrade struct {
	*planfile.Plan
	cl *cluster
	// wanted is the gr that it makes.
	wanted *unstructured.Unstructured
	// checked is what was present when it was checked.
	checked planfile.Current
	// asStored is the plan as it was stored, nil before that.
	asStored *topsv1.UpgradePlan
	// step makes each batch wait for an approval.
	step bool
}

// checkPlan reads a plan and compares it with the cluster. It writes nothing.
func checkPlan(ctx context.Context, c *cli, args []string, file string) (*plannedUpgrade, error) {
	plan, err := readPlan(c.In, file)
	if err != nil {
		return nil, err
	}
	spec := &plan.Object.Spec
	if len(args) > 0 {
		if err := plan.For(args[0]); err != nil {
			return nil, refused("%s: %w", file, err)
		}
	}
	cl, err := c.connect()
	if err != nil {
		return nil, err
	}
	wanted := &unstructured.Unstructured{Object: map[string]any{}}
	wanted.SetName(spec.GcuResource)
	var content map[string]any
	if err := json.Unmarshal(spec.Wanted.Raw, &content); err != nil {
		return nil, refused("%s: spec.wanted: %w", file, err)
	}
	wanted.Object["spec"] = content
	p := &plannedUpgrade{Plan: plan, cl: cl, wanted: wanted}
	if p.checked.Stored, err = p.stored(ctx); err != nil {
		return nil, err
	}
	q, err := compareWith(ctx, c.terminal, cl, wanted)
	if err != nil {
		return nil, err
	}
	wrong, err := cl.predictor().CheckPlan(ctx, plan, q.Present, q.Wanted)
	switch {
	case err != nil:
		return nil, explain(err, "list", "")
	case wrong != "":
		return nil, refused("%s: %s", file, wrong)
	}
	p.checked.Gr = q.Present
	return p, nil
}

// stored returns the stored plan of the same name, nil if there is none.
func (p *plannedUpgrade) stored(ctx context.Context) (*topsv1.UpgradePlan, error) {
	present := &topsv1.UpgradePlan{}
	err := p.cl.Get(ctx, client.ObjectKeyFromObject(p.Object), present)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return present, explain(err, "get", "")
}

// text describes a plan.
func (p *plannedUpgrade) text() string {
	return upgradeplan.Table(p.Mission(), p.About) + p.GlobalText()
}

// store writes the plan, which the rollout follows once the gr names it, and prints that.
func (p *plannedUpgrade) store(ctx context.Context, out terminal) error {
	err := p.write(ctx, p.cl)
	if err == nil {
		out.say("UpgradePlan %s is written: %s, batches: %d", p.Object.Name, message.Count(p.Nodes(), "node"), len(p.Object.Spec.Batches))
	}
	return err
}

// now reads the stored plan and then its gr: another upgrade of the gr ends the plan.
func (p *plannedUpgrade) now(ctx context.Context) (now planfile.Current, err error) {
	if now.Stored, err = p.stored(ctx); err != nil {
		return now, err
	}
	now.Gr = &topsv1.GcuResource{}
	return now, explain(p.cl.Get(ctx, client.ObjectKeyFromObject(p.checked.Gr), now.Gr), "get", "")
}

// followed returns the error of writing the gr, or what the gr follows now if another client wrote it or its plan at the
// same time.
func (p *plannedUpgrade) followed(ctx context.Context, err error) error {
	if p.asStored == nil {
		return err
	}
	now, unread := p.now(ctx)
	if unread != nil {
		return err
	}
	overtaken := planfile.Overtaken(now, p.asStored, err)
	if overtaken != nil && err == nil { // the gr is changed
		return notYet("%w", overtaken)
	}
	return cmp.Or(overtaken, err)
}

// unseen returns a message while the operator has not reported on the plan as it was stored, so that the status is older; "" if it has.
func (p *plannedUpgrade) unseen(ctx context.Context) (string, error) {
	now, err := p.stored(ctx)
	if err != nil || now == nil || now.UID != p.asStored.UID || now.Status.ObservedGeneration >= p.asStored.Generation {
		return "", err
	}
	return fmt.Sprintf("the operator has not reported on UpgradePlan %s yet", now.Name), nil
}

// hasNode reports whether a node is in the plan. A nil plan has all.
func (p *plannedUpgrade) hasNode(node string) bool {
	if p == nil {
		return true
	}
	_, is := p.Batch(node)
	return is
}

// tasksDone reports whether every global task of the plan is done. A nil plan has none.
func (p *plannedUpgrade) tasksDone(ctx context.Context) (bool, error) {
	if p == nil {
		return true, nil
	}
	now, err := p.stored(ctx)
	if err != nil || now == nil {
		return now == nil, err
	}
	undone := len(p.Object.Spec.Before) + len(p.Object.Spec.After)
	for _, task := range now.Status.Tasks {
		if task.Result == string(planfile.Done) {
			undone--
		}
	}
	return undone <= 0, nil
}

// dryRun has the API server check the plan, if the user may write it.
func (p *plannedUpgrade) dryRun(ctx context.Context, out terminal) error {
	err := p.write(ctx, client.NewDryRunClient(p.cl))
	if f, ok := errors.AsType[*failure](err); ok && f.code == exitForbidden && !denial.ByAdmission(err) {
		fmt.Fprintln(out.ErrOut, "the plan is not checked by the API server: you do not have permission to write UpgradePlan", p.Object.Name)
		return nil
	}
	return err
}

// write stores the plan. It starts over when the operator writes to the stored one meanwhile.
func (p *plannedUpgrade) write(ctx context.Context, writer client.Writer) error {
	return retry.OnError(retryBackoff(), denial.IsConflict, func() error {
		now, err := p.now(ctx)
		if err != nil {
			return err
		}
		next, err := p.Stored(now, p.checked, p.step)
		if err != nil {
			return refused("%w", err)
		}
		if now.Stored == nil {
			err = explain(writer.Create(ctx, next, client.FieldOwner(fieldManager), client.FieldValidation("Strict")), "create", "")
		} else {
			err = explain(writer.Update(ctx, next, client.FieldOwner(fieldManager), client.FieldValidation("Strict")), "update", "")
		}
		if err == nil {
			p.asStored = next
		}
		return err
	})
}
