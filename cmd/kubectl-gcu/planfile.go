package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// planObject returns the plan of a preview, as the content of a file.
func planObject(q *preview.Question, answer *preview.Preview, now time.Time) (map[string]any, error) {
	if answer.Blocked != "" {
		return nil, refused("there is nothing to plan: %s", answer.Blocked)
	}
	if len(answer.Nodes) == 0 && len(answer.Offline()) == 0 {
		return nil, refused("there is nothing to plan: no node of gr %s is upgraded", q.Wanted.Name)
	}
	spec, err := planfile.Of(upgradeplan.DefaultBook(), answer.Plan, answer.Planned, answer.Offline(), int32(answer.UsualSeconds))
	if err != nil {
		return nil, err
	}
	spec.GcuResource = q.Wanted.Name
	if spec.From, err = revision.Name(q.Present); err != nil {
		return nil, err
	}
	if spec.Revision, err = revision.Name(q.Wanted); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(q.Wanted.Spec)
	if err != nil {
		return nil, fmt.Errorf("writing the spec of gr %s: %w", q.Wanted.Name, err)
	}
	spec.Wanted = &runtime.RawExtension{Raw: raw}
	object := &topsv1.UpgradePlan{TypeMeta: metav1.TypeMeta{APIVersion: topsv1.GroupVersion.String(), Kind: planfile.Kind}, Spec: spec}
	object.Name = strings.ToLower(q.Wanted.Name + "-" + now.UTC().Format("20060102-150405"))
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("writing the plan: %w", err)
	}
	delete(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	return content, nil
}

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
	if plan.Object.Name == "" || plan.Object.Spec.Wanted == nil {
		return nil, refused("%s: metadata.name and spec.wanted are required", file)
	}
	return plan, nil
}

// plannedUpgrade is a plan that fits the cluster.
type plannedUpgrade struct {
	*planfile.Plan
	cl *cluster
	// wanted is the gr that it makes; live is the present one.
	wanted *unstructured.Unstructured
	live   *topsv1.GcuResource
}

// checkPlan reads a plan and compares it with the cluster. It writes nothing.
func checkPlan(ctx context.Context, c *cli, args []string, file string) (*plannedUpgrade, error) {
	plan, err := readPlan(c.In, file)
	if err != nil {
		return nil, err
	}
	spec := &plan.Object.Spec
	if len(args) > 0 && args[0] != spec.GcuResource {
		return nil, refused("%s is for gr %s, not %s", file, spec.GcuResource, args[0])
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
	q, err := compareWith(ctx, c.terminal, cl, wanted)
	if err != nil {
		return nil, err
	}
	if err := fits(ctx, cl, plan, q); err != nil {
		return nil, refused("%s: %w", file, err)
	}
	return &plannedUpgrade{plan, cl, wanted, q.Present}, nil
}

// fits returns why a plan cannot be run, nil if it can.
func fits(ctx context.Context, cl *cluster, plan *planfile.Plan, q *preview.Question) error {
	spec := &plan.Object.Spec
	present, err := revision.Name(q.Present)
	if err != nil {
		return err
	}
	next, err := revision.Name(q.Wanted)
	if err != nil {
		return err
	}
	if next != spec.Revision {
		return fmt.Errorf("spec.wanted is revision %s, not %s, for which the plan is: write another plan", next, spec.Revision)
	}
	if spec.From != "" && present != spec.From && present != spec.Revision {
		return fmt.Errorf("gr %s was changed since the plan was written: it has revision %s, not %s; write another plan", q.Present.Name, present, spec.From)
	}
	q.Approved = true
	answer, err := cl.asker().Ask(ctx, *q)
	if err != nil {
		return explain(err, "list", "")
	}
	if answer.Blocked != "" {
		return fmt.Errorf("nothing can be upgraded: %s", answer.Blocked)
	}
	if err := plan.Check(answer.Planned, upgradeplan.DefaultBook()); err != nil {
		return fmt.Errorf("the cluster is no longer what the plan is for:\n%w\nwrite another plan, or remove these nodes from it", err)
	}
	return nil
}

// text describes a plan.
func (p *plannedUpgrade) text() string {
	return upgradeplan.Table(p.Mission(), p.About)
}

// store writes the plan, to be followed once the gr names it.
func (p *plannedUpgrade) store(ctx context.Context, step bool) error {
	next := p.Object.DeepCopy()
	next.Status = topsv1.UpgradePlanStatus{}
	next.ResourceVersion, next.UID = "", ""
	next.OwnerReferences = []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: p.live.Name, UID: p.live.UID}}
	for i := range next.Spec.Batches {
		if b := &next.Spec.Batches[i]; step {
			b.Approval = topsv1.ApprovalManual
		}
	}
	present := &topsv1.UpgradePlan{}
	switch err := p.cl.Get(ctx, client.ObjectKeyFromObject(next), present); {
	case apierrors.IsNotFound(err):
		return explain(p.cl.Create(ctx, next, client.FieldOwner(fieldManager), client.FieldValidation("Strict")), "create", "")
	case err != nil:
		return explain(err, "get", "")
	case p.live.Annotations[topsv1.AnnotationUpgradePlan] != present.Name && present.Status.Time != nil:
		return refused("UpgradePlan %s has ended, and keeps its result: give the plan another metadata.name", present.Name)
	}
	next.ResourceVersion = present.ResourceVersion
	return explain(p.cl.Update(ctx, next, client.FieldOwner(fieldManager), client.FieldValidation("Strict")), "update", "")
}
