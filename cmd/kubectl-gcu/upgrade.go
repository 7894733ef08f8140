package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/topscloud"
	"github.com/topsops/gcu-operator/pkg/gcucli/view"
)

func (c *cli) upgradeCommand() *cobra.Command {
	var file string
	var wait bool
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "upgrade [GR] -f FILE",
		Short: "Gives a gr the spec of a file, says what changes, and may wait",
		Long: `Gives a gr that exists the spec of the gr in a file, as a whole, and says what
changes. Nothing but the spec is taken from the file. A file with another gr, by
kind, name or uid, is refused, and so is a change when somebody else changed the
spec in the same moment.

With --wait it ends when every reachable node has it (exit code 0); when the rollout
halts, is rolled back, or the time is over, with 3.`,
		Example: `  # Say what changes, and begin
  kubectl gcu upgrade -f gr.yaml

  # The same from a script, which waits
  kustomize build . | kubectl gcu upgrade my-gr -f - --wait --timeout 2h`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: c.completeResources,
		RunE: does(func(ctx context.Context, args []string) error {
			wanted, err := c.readResource(file)
			if err != nil {
				return err
			}
			if len(args) > 0 && args[0] != wanted.GetName() {
				return refused("%s holds gr %s, not %s", file, wanted.GetName(), args[0])
			}
			cl, err := c.connect()
			if err != nil {
				return err
			}
			generation, err := c.upgrade(ctx, cl, wanted)
			if err != nil || !wait {
				return err
			}
			return c.awaitSpec(ctx, cl, wanted.GetName(), generation, timeout)
		}),
	}
	command.Flags().StringVarP(&file, "filename", "f", "", "`file` with the gr, YAML or JSON; - reads the input")
	command.Flags().BoolVar(&wait, "wait", false, "wait until every reachable node has it")
	command.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait, such as 2h; 0 is without end")
	_ = command.MarkFlagRequired("filename") // the flag exists
	return command
}

// readDocument reads the one object of a file; - is the input.
func (c *cli) readDocument(file string) (*unstructured.Unstructured, error) {
	in := c.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, misused("%w", err)
		}
		defer f.Close()
		in = f
	}
	var found *unstructured.Unstructured
	for decoder := yaml.NewYAMLOrJSONDecoder(in, 4096); ; {
		var content map[string]any
		err := decoder.Decode(&content)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, misused("reading %s: %w", file, err)
		}
		if len(content) == 0 {
			continue
		}
		if found != nil {
			return nil, misused("%s holds more than one object: give it one gr", file)
		}
		found = &unstructured.Unstructured{Object: content}
	}
	if found == nil {
		return nil, misused("%s holds no object", file)
	}
	return found, nil
}

// readResource reads a gr with a spec.
func (c *cli) readResource(file string) (*unstructured.Unstructured, error) {
	found, err := c.readDocument(file)
	if err != nil {
		return nil, err
	}
	kind := found.GroupVersionKind()
	if kind.Group == topscloud.Group {
		return nil, misused("%s is of %s: kubectl gcu import %s translates it", file, found.GetAPIVersion(), file)
	}
	if kind != topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind) {
		return nil, misused("%s holds a %s of %s, not a %s of %s", file, kind.Kind, found.GetAPIVersion(), topsv1.GcuResourceKind, topsv1.GroupVersion)
	}
	if found.GetName() == "" {
		return nil, misused("%s: metadata.name is missing", file)
	}
	if _, is := found.Object["spec"].(map[string]any); !is {
		return nil, misused("%s has no spec", file)
	}
	return found, nil
}

// upgrade writes the wanted spec and returns the generation of the gr with it.
func (c *cli) upgrade(ctx context.Context, cl *cluster, wanted *unstructured.Unstructured) (generation int64, err error) {
	name := wanted.GetName()
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind))
	var judged int64
	for range 10 {
		if err := cl.read(ctx, "", name, live); apierrors.IsNotFound(err) {
			return 0, refused("there is no gr %s to upgrade: kubectl create -f deploys a new one", name)
		} else if err != nil {
			return 0, err
		}
		if judged == 0 {
			if err := c.announce(ctx, cl, live, wanted); apierrors.IsConflict(err) {
				continue
			} else if err != nil {
				return live.GetGeneration(), ignoreUnchanged(err)
			}
			judged = live.GetGeneration()
		}
		if live.GetGeneration() != judged {
			return 0, refused("somebody else changed the spec of gr %s in this moment: nothing was changed, look at it and try again", name)
		}
		next, err := cl.writeSpec(ctx, live, wanted)
		if !apierrors.IsConflict(err) {
			if err == nil {
				c.say("gr %s is changed", name)
			}
			return next.GetGeneration(), err
		}
	}
	return 0, fmt.Errorf("gr %s is written to all the time: nothing was changed, try again", name)
}

// errUnchanged tells that there is nothing to do.
var errUnchanged = errors.New("nothing changes")

func ignoreUnchanged(err error) error {
	if errors.Is(err, errUnchanged) {
		return nil
	}
	return err
}

// announce checks that a gr may be given a spec, and says what that changes.
func (c *cli) announce(ctx context.Context, cl *cluster, live, wanted *unstructured.Unstructured) error {
	name := live.GetName()
	if uid := wanted.GetUID(); uid != "" && uid != live.GetUID() {
		return refused("the file is of another gr %s, with uid %s; the present one has %s", name, uid, live.GetUID())
	}
	if live.GetDeletionTimestamp() != nil {
		return refused("gr %s is being deleted", name)
	}
	if to, is := live.GetAnnotations()[topsv1.AnnotationRollbackTo]; is {
		return refused("a rollback of gr %s to %s is asked for: wait for it, or take annotation %s away", name, to, topsv1.AnnotationRollbackTo)
	}
	next, err := cl.writeSpec(ctx, live, wanted, client.DryRunAll)
	if err != nil {
		return err
	}
	changes, err := changesOf(live, next)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		c.say("gr %s has this spec already", name)
		return errUnchanged
	}
	c.say("gr %s:", name)
	_, err = fmt.Fprint(c.Out, view.ChangesText(changes, "  "))
	if live.GetAnnotations()[topsv1.AnnotationUpdateStrategy] == "" && live.GetAnnotations()[topsv1.OpenYurtAnnotationUpdateStrategy] == "" {
		c.say("it has no annotation %s: nobody replaces pods that exist", topsv1.AnnotationUpdateStrategy)
	}
	return err
}

// writeSpec patches the spec of a gr as it was read.
func (c *cluster) writeSpec(ctx context.Context, live, wanted *unstructured.Unstructured, options ...client.PatchOption) (*unstructured.Unstructured, error) {
	next := live.DeepCopy()
	next.Object["spec"] = runtime.DeepCopyJSONValue(wanted.Object["spec"])
	patch := client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{})
	options = append(options, client.FieldOwner(fieldManager), client.FieldValidation("Strict"))
	return next, told(c.Patch(ctx, next, patch, options...), "patch", "")
}

func changesOf(from, to *unstructured.Unstructured) ([]view.Change, error) {
	var specs [2]topsv1.GcuResource
	for i, u := range []*unstructured.Unstructured{from, to} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &specs[i]); err != nil {
			return nil, fmt.Errorf("reading the spec of gr %s: %w", u.GetName(), err)
		}
	}
	return view.ChangesOf(&specs[0].Spec, &specs[1].Spec)
}

// awaitSpec follows a gr until every reachable node has the spec of a generation.
func (c *cli) awaitSpec(ctx context.Context, cl *cluster, name string, generation int64, timeout time.Duration) error {
	return c.follow(ctx, cl, name, timeout, func(gr *topsv1.GcuResource) error {
		if gr.Generation == generation {
			return nil
		}
		if to := gr.Annotations[topsv1.AnnotationRolledBackTo]; to != "" {
			return notYet("gr %s was rolled back to %s; kubectl gcu status %s says why", name, to, name)
		}
		return notYet("the spec of gr %s was changed again by somebody else", name)
	})
}
