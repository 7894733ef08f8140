package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/askedby"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

func upgradeCommand(c *cli) *cobra.Command {
	var file, plan string
	var wait, step bool
	var timeout time.Duration
	var l limit
	command := &cobra.Command{
		Use:               "upgrade [GR] [-f FILE | --plan FILE [--step]] [--nodes …] [--components …]",
		Short:             "Upgrade a gr to the spec in a file, and print what changes",
		Long:              upgradeLong,
		Example:           upgradeExample,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: completeResources(c.connection),
		RunE: runE(func(ctx context.Context, args []string) error {
			if plan == "" && step {
				return usageError("--step is for --plan")
			}
			cl, asked, err := startUpgrade(ctx, c, args, file, plan, step, &l)
			if err != nil || !wait {
				return err
			}
			return awaitUpgrade(ctx, c.terminal, cl, asked, timeout)
		}),
	}
	command.Flags().StringVarP(&file, "filename", "f", "", "`file` with the gr, YAML or JSON; - reads standard input")
	command.Flags().StringVar(&plan, "plan", "", "`file` with a plan of kubectl gcu plan -o yaml; - reads standard input")
	command.Flags().BoolVar(&step, "step", false, "each batch of the plan waits for kubectl gcu approve")
	command.Flags().BoolVar(&wait, "wait", false, "wait until every reachable node has it")
	command.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait, such as 2h; 0: no limit")
	l.bind(c.connection, command)
	return command
}

const (
	upgradeLong = `Replace the spec of an existing gr with that of the gr in a file, and print what
changes. Only the spec and the limit of the upgrade are read from the file. A file with
another gr, by kind, name or uid, is refused, and so are a concurrent change and
versions that the UpgradePolicy allows on no node.

--nodes and --components limit the upgrade; the rest waits (LeftOut). A later upgrade
--nodes or --all without -f continues with other nodes, or with all. Every upgrade -f
sets the limit anew, by these flags or by annotation
` + topsv1.AnnotationUpgradeOnly + ` in the file; without them there is no limit.
New components are deployed at once, regardless of the limit. Under an update strategy,
pods of removed or renamed components leave node by node; without one they are deleted
at once. kubectl gcu plan shows this beforehand.

--plan runs the plan in a file of kubectl gcu plan -o yaml: its nodes, batch by batch,
with its tasks, inside budget, waves and windows. All else waits. The plan is stored as
an UpgradePlan, which keeps the result (kubectl gcu history --plan). It is refused if it
breaks a rule, or if its tasks no longer fit the cluster. With --step each batch waits
for an approval; with strategy OTA, under which none does, it is refused. Any other
upgrade of the gr ends the plan.

With --wait it returns when every reachable node within the limit is updated (exit
code 0), or when the rollout halts, is rolled back, is changed by another client or
times out (exit code 3).`
	upgradeExample = `  # Print what changes, and start
  kubectl gcu upgrade -f gr.yaml

  # From a script, and wait
  kustomize build . | kubectl gcu upgrade my-gr -f - --wait --timeout 2h

  # The driver first, on two nodes; then everywhere; then the rest
  kubectl gcu upgrade -f gr.yaml --nodes node-1,node-2 --components driver --wait
  kubectl gcu upgrade my-gr --components driver --wait
  kubectl gcu upgrade my-gr --all --wait`
)

// startUpgrade writes the gr that is wanted by the flags, or by a plan.
func startUpgrade(ctx context.Context, c *cli, args []string, file, plan string, step bool, l *limit) (cl *cluster, asked startedUpgrade, err error) {
	if plan == "" {
		cl, wanted, err := readWanted(ctx, c, args, file, l)
		if err != nil {
			return nil, asked, err
		}
		written, err := upgradeSpec(ctx, c.terminal, cl, wanted, nil)
		return cl, startedAs(written, nil), err
	}
	if file != "" || l.given() {
		return nil, asked, usageError("a plan already lists everything to upgrade: --plan excludes -f, --nodes, --components and --all")
	}
	p, written, err := runPlan(ctx, c, args, plan, step)
	if err != nil {
		return nil, asked, err
	}
	return p.cl, startedAs(written, p), nil
}

// runPlan makes a gr follow the plan in a file.
func runPlan(ctx context.Context, c *cli, args []string, file string, step bool) (p *plannedUpgrade, written *unstructured.Unstructured, err error) {
	if p, err = checkPlan(ctx, c, args, file); err != nil {
		return nil, nil, err
	}
	p.step = step
	setAnnotation(p.wanted, topsv1.AnnotationUpgradePlan, p.Object.Name)
	written, err = upgradeSpec(ctx, c.terminal, p.cl, p.wanted, p)
	if err = p.followed(ctx, err); err == nil && step {
		c.say("each batch waits for kubectl gcu approve %s BATCH", p.checked.Gr.Name)
	}
	return p, written, err
}

// upgradeSpec writes the wanted spec and returns the resulting gr. p is the plan that it follows, nil for none. A
// plan was checked against an earlier read of the gr, and is stored after all other checks; without one the gr is checked
// at its first read.
func upgradeSpec(ctx context.Context, out terminal, cl *cluster, wanted *unstructured.Unstructured, p *plannedUpgrade) (written *unstructured.Unstructured, err error) {
	name := wanted.GetName()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind))
	var checked metav1.Object
	if p != nil {
		checked = p.checked.Gr
	}
	linkReporter := false
	for range 10 {
		if err := cl.read(ctx, "", name, live); apierrors.IsNotFound(err) {
			return nil, refused("there is no gr %s to upgrade: kubectl create -f deploys a new one", name)
		} else if err != nil {
			return nil, err
		}
		if checked == nil {
			checked = live.DeepCopy()
		}
		if !planfile.Unchanged(checked, live) {
			return nil, refused("the spec of gr %s, the limit of its upgrade or the plan that it follows was changed concurrently: this upgrade is not started; review it and try again", name)
		}
		if err := mayUpgrade(live); err != nil { // a rollback that is requested meanwhile would take the new spec back
			return live, err
		}
		if !linkReporter {
			err := announce(ctx, out, cl, live, wanted, p)
			if denial.IsConflict(err) {
				continue
			}
			if p != nil && ignoreUnchanged(err) == nil {
				err = cmp.Or(p.store(ctx, out), err)
			}
			if err != nil {
				return live, ignoreUnchanged(err)
			}
			linkReporter = true
			setAnnotation(wanted, topsv1.AnnotationAskedBy, cl.requesterAnnotation(ctx, askedby.Upgrade, time.Now()))
		}
		next, err := writeSpec(ctx, cl, live, wanted)
		if !denial.IsConflict(err) {
			if err == nil {
				out.say("gr %s is changed", name)
			}
			return next, err
		}
	}
	return nil, fmt.Errorf("gr %s keeps changing: this upgrade is not started, try again", name)
}

// errUnchanged means that there is nothing to do.
var errUnchanged = errors.New("nothing changes")

func ignoreUnchanged(err error) error {
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// mayUpgrade returns why a gr may not be upgraded now, nil if it may.
func mayUpgrade(live *unstructured.Unstructured) error {
	if err := changeable(live); err != nil {
		return err
	}
	if to, is := live.GetAnnotations()[topsv1.AnnotationRollbackTo]; is {
		return rollbackPending(live.GetName(), to)
	}
	return nil
}

// announce checks that a gr may be upgraded, following a plan if that is not nil, and prints the changes.
func announce(ctx context.Context, out terminal, cl *cluster, live, wanted *unstructured.Unstructured, p *plannedUpgrade) error {
	name := live.GetName()
	if uid := wanted.GetUID(); uid != "" && uid != live.GetUID() {
		return refused("the file is for another gr %s, with UID %s; the current one has %s", name, uid, live.GetUID())
	}
	next, err := writeSpec(ctx, cl, live, wanted, client.DryRunAll)
	if err != nil {
		return err
	}
	changes, err := changesOf(live, next)
	if err != nil {
		return err
	}
	was, only := live.GetAnnotations()[topsv1.AnnotationUpgradeOnly], next.GetAnnotations()[topsv1.AnnotationUpgradeOnly]
	before, plan := live.GetAnnotations()[topsv1.AnnotationUpgradePlan], next.GetAnnotations()[topsv1.AnnotationUpgradePlan]
	if len(changes) == 0 && was == only && before == plan {
		out.say("gr %s already has this spec%s", name, limitedAs(only, plan))
		return errUnchanged
	}
	if err := checkVersions(ctx, out, cl, live, next, p); err != nil {
		return err
	}
	out.say("gr %s:", name)
	_, err = fmt.Fprint(out.Out, display.ChangesText(changes, "  "))
	switch {
	case only != "":
		out.say("  limited to %s: the rest waits", display.LimitText(only))
	case was != "":
		out.say("  no longer limited to %s", display.LimitText(was))
	}
	announcePlan(out, before, plan)
	if !hasStrategy(live) {
		out.say("it has no annotation %s: existing pods are not replaced", topsv1.AnnotationUpdateStrategy)
	}
	return err
}

// checkVersions refuses an upgrade to versions that the policy of the gr allows on no node, and prints
// on which nodes they are not allowed otherwise. The operator checks every node again.
func checkVersions(ctx context.Context, out terminal, cl *cluster, live, next *unstructured.Unstructured, p *plannedUpgrade) error {
	q, err := questionOf(live, next)
	if err != nil {
		return err
	}
	if q.Approved = true; p != nil {
		q.Plan = p.Plan // it is not stored yet
	}
	prediction, err := cl.predictor().UnderVersions(ctx, *q)
	switch {
	case apierrors.IsForbidden(err):
		fmt.Fprintln(out.ErrOut, preview.NotChecked+":", err)
		return nil
	case err != nil:
		return explain(err, "list", "")
	case prediction == nil:
		return nil
	case prediction.Refused() != "":
		return refused("gr %s: %s", live.GetName(), prediction.Refused())
	}
	if waiting := prediction.Waiting(); waiting != "" {
		out.say("%s", waiting)
	}
	return nil
}

// announcePlan prints which plan is followed, and which one was.
func announcePlan(out terminal, before, plan string) {
	switch {
	case plan != "":
		out.say("  following UpgradePlan %s: the rest waits", plan)
	case before != "":
		out.say("  no longer following UpgradePlan %s", before)
	}
}

func limitedAs(only, plan string) string {
	switch {
	case plan != "":
		return ", and follows UpgradePlan " + plan
	case only != "":
		return ", limited to " + display.LimitText(only)
	}
	return ", and is not limited"
}

func changesOf(from, to *unstructured.Unstructured) ([]display.Change, error) {
	var specs [2]topsv1.GcuResource
	for i, u := range []*unstructured.Unstructured{from, to} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &specs[i]); err != nil {
			return nil, fmt.Errorf("reading the spec of gr %s: %w", u.GetName(), err)
		}
	}
	return display.ChangesOf(&specs[0].Spec, &specs[1].Spec)
}
