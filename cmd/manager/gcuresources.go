package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/kubeconfig"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/strictyaml"
)

const createHelp = `Create a GcuResource. If one with the same name exists, it is left unchanged. It
waits until the API server serves the kind. The Helm chart runs it after an
installation or upgrade.`

const removeHelp = `Delete all GcuResources, and wait until their components are gone, which requires a
running manager. The Helm chart runs it before it is uninstalled.`

const (
	// removePoll is how often grs are read while they are waited for.
	removePoll = time.Second
	// abandonedAfter is how long there may be no gr before a recreation that creates none is removed: the manager tries every 30 s.
	abandonedAfter = time.Minute
)

// oneShot has the flags of a one-shot command.
type oneShot struct {
	kubeconfig string
	timeout    time.Duration
}

// run connects, and calls do until its time is over.
func (e oneShot) run(command *cobra.Command, do func(context.Context, client.Client, io.Writer) error) error {
	config, err := kubeconfig.Load(e.kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := topsv1.AddToScheme(scheme); err != nil {
		return fmt.Errorf("registering kinds: %w", err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	ctx, cancel := context.WithTimeout(command.Context(), e.timeout)
	defer cancel()
	if err := do(ctx, c, command.OutOrStdout()); err != nil {
		command.PrintErrln("manager:", err)
		return &runError{err}
	}
	return nil
}

func (e *oneShot) bindFlags(command *cobra.Command, timeout time.Duration) {
	command.Flags().StringVar(&e.kubeconfig, "kubeconfig", "", kubeconfig.Usage)
	command.Flags().DurationVar(&e.timeout, "timeout", timeout, "`time` after which it fails")
}

func newCreateCommand() *cobra.Command {
	var e oneShot
	var file string
	command := &cobra.Command{
		Use: "create-gcuresource", Short: "Create a GcuResource if it does not exist", Long: createHelp,
		Example: "  manager create-gcuresource --file examples/gcu-resource.json",
		Args:    cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			text, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("reading --file: %w", err)
			}
			gr := &topsv1.GcuResource{}
			if err := strictyaml.Unmarshal(text, gr); err != nil {
				return fmt.Errorf("reading --file %s: %w", file, err)
			}
			return e.run(command, func(ctx context.Context, c client.Client, out io.Writer) error { return createGR(ctx, c, gr, out) })
		},
	}
	command.Flags().StringVar(&file, "file", "", "`file` with the GcuResource, in JSON or YAML")
	e.bindFlags(command, 2*time.Minute)
	return command
}

func newRemoveCommand() *cobra.Command {
	var e oneShot
	command := &cobra.Command{
		Use: "remove-gcuresources", Short: "Delete all GcuResources and wait until they are gone", Long: removeHelp,
		Example: "  manager remove-gcuresources --timeout 10m",
		Args:    cobra.NoArgs,
		RunE:    func(command *cobra.Command, _ []string) error { return e.run(command, removeGRs) },
	}
	e.bindFlags(command, 10*time.Minute)
	return command
}

// createGR creates a gr, unless one of its name exists. It waits until the kind is served.
func createGR(ctx context.Context, c client.Client, gr *topsv1.GcuResource, out io.Writer) error {
	var err error
	_ = wait.PollUntilContextCancel(ctx, crdPoll, true, func(context.Context) (bool, error) {
		err = c.Create(ctx, gr.DeepCopy())
		return !meta.IsNoMatchError(err) && !denial.IsNotFound(err), nil
	})
	switch {
	case denial.IsAlreadyExists(err):
		fmt.Fprintf(out, "GcuResource %s exists already and was not changed\n", gr.Name)
		return nil
	case err != nil:
		return fmt.Errorf("creating GcuResource %s: %w", gr.Name, err)
	}
	fmt.Fprintf(out, "GcuResource %s created\n", gr.Name)
	return nil
}

// removeGRs deletes all grs, also those that are created meanwhile, and returns once there is none and none is to be
// created again by the REST API. A recreation that does not go on, as when its author lost the right to it, is removed.
func removeGRs(ctx context.Context, c client.Client, out io.Writer) error {
	var left []string
	empty := time.Now() // since then there is no gr
	err := wait.PollUntilContextCancel(ctx, removePoll, true, func(ctx context.Context) (bool, error) {
		var recreations topsv1.GcuResourceRecreationList
		var grs topsv1.GcuResourceList
		// Recreations come first: a gr that one creates in between is in the list of grs.
		if err := errors.Join(listAll(ctx, c, &recreations, "GcuResourceRecreations"), listAll(ctx, c, &grs, "GcuResources")); err != nil {
			return false, ignoreEnd(ctx, err)
		}
		left = describe(grs.Items, recreations.Items)
		if len(grs.Items) > 0 {
			empty = time.Now()
		}
		err := deleteAll(ctx, c, grs.Items, out)
		if time.Since(empty) >= abandonedAfter {
			err = abandon(ctx, c, recreations.Items, out)
		}
		return len(left) == 0, ignoreEnd(ctx, err)
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("timed out waiting for the deletion of %s. The manager, which deletes their components, must be running; kubectl describe gr shows what it waits for; to cancel a pending recreation: kubectl delete gcuresourcerecreation NAME", message.Names(left))
	}
	return err
}

// listAll lists the objects of a kind; without its CRD there are none.
func listAll(ctx context.Context, c client.Client, list client.ObjectList, kind string) error {
	err := c.List(ctx, list)
	if err == nil || meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("listing %s: %w", kind, err)
}

// ignoreEnd returns an error unless the end of the context caused it, which the caller reports itself.
func ignoreEnd(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// deleteAll deletes the grs that are not being deleted yet.
func deleteAll(ctx context.Context, c client.Client, grs []topsv1.GcuResource, out io.Writer) error {
	var failed []error
	for i := range grs {
		gr := &grs[i]
		if gr.DeletionTimestamp != nil {
			continue
		}
		fmt.Fprintf(out, "Deleting GcuResource %s\n", gr.Name)
		err := c.Delete(ctx, gr, client.Preconditions{UID: &gr.UID}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if err != nil && !denial.IsGoneOrChanged(err) {
			failed = append(failed, fmt.Errorf("deleting GcuResource %s: %w", gr.Name, err))
		}
	}
	return errors.Join(failed...)
}

// abandon deletes the recreations that have not created their gr.
func abandon(ctx context.Context, c client.Client, recreations []topsv1.GcuResourceRecreation, out io.Writer) error {
	var failed []error
	for i := range recreations {
		r := &recreations[i]
		if r.Spec.Created != "" {
			continue
		}
		fmt.Fprintf(out, "Deleting GcuResourceRecreation %s: GcuResource %s was not created for %s, and the log of the manager says why, such as that %q lost the right to it\n",
			r.Name, r.Name, abandonedAfter, r.Spec.Author.Username)
		err := c.Delete(ctx, r, client.Preconditions{UID: &r.UID, ResourceVersion: &r.ResourceVersion})
		if err != nil && !denial.IsGoneOrChanged(err) {
			failed = append(failed, fmt.Errorf("deleting GcuResourceRecreation %s: %w", r.Name, err))
		}
	}
	return errors.Join(failed...)
}

// describe returns the names of grs with their phase, and of those that are to be created again, sorted.
func describe(grs []topsv1.GcuResource, recreations []topsv1.GcuResourceRecreation) []string {
	var names []string
	for i := range grs {
		names = append(names, grs[i].Name+" ("+grs[i].Status.Phase+")")
	}
	for i := range recreations {
		if recreations[i].Spec.Created == "" {
			names = append(names, recreations[i].Name+" (to be created again)")
		}
	}
	slices.Sort(names)
	return names
}
