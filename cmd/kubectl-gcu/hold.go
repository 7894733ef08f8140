package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/denial"
)

// maxHoldMessage is in characters, as for a hold set on the node.
const maxHoldMessage = 256

func holdCommand(c *cli) *cobra.Command {
	var message string
	command := &cobra.Command{
		Use:   "hold NODE",
		Short: "Exclude a node from upgrades",
		Long: `Exclude a node from upgrades until kubectl gcu release NODE: no rollout starts it,
and what is already in flight completes. A wave with a held node does not complete.

It is annotation ` + topsv1.AnnotationHold + ` of the NodeUpgrade, which is created
if necessary. The node can also be held locally (node-agent ota hold); each hold is
released where it was set, and the node is upgraded when none is left.`,
		Example: `  # Hold a node, and say why
  kubectl gcu hold node-1 -m "a training run until Friday"

  # Which nodes are held, and by whom?
  kubectl gcu nodes --state held`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeNodes(c.connection),
		RunE: runE(func(ctx context.Context, args []string) error {
			said := strings.TrimSpace(message)
			if utf8.RuneCountInString(said) > maxHoldMessage || strings.ContainsFunc(said, unicode.IsControl) {
				return usageError("--message is one line of at most %d characters", maxHoldMessage)
			}
			cl, err := c.connect()
			if err != nil {
				return err
			}
			return holdNode(ctx, c.terminal, cl, args[0], said)
		}),
	}
	command.Flags().StringVarP(&message, "message", "m", "", "the reason, shown to others")
	return command
}

func releaseCommand(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "release NODE",
		Short: "Release a held node",
		Long: `Remove the hold that kubectl gcu hold NODE set. A hold that was set on the node stays
until it is released there, with node-agent ota release.`,
		Example:           "  kubectl gcu release node-1",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeHeldNodes(c.connection),
		RunE: c.onCluster(func(ctx context.Context, cl *cluster, args []string) error {
			return releaseNode(ctx, c.terminal, cl, args[0])
		}),
	}
}

// holdNode sets the annotation, creating the NodeUpgrade if necessary. An existing hold keeps
// its time.
func holdNode(ctx context.Context, out terminal, cl *cluster, name, message string) error {
	var before *daemonset.Hold
	err := changeOrCreate(ctx, cl, name, func(upgrade *topsv1.NodeUpgrade) (bool, error) {
		since := time.Now()
		if before = daemonset.OfAdministrator(upgrade); before != nil {
			if message == "" || message == before.Message {
				return false, nil
			}
			if !before.Since.IsZero() {
				since = before.Since
			}
		}
		metav1.SetMetaDataAnnotation(&upgrade.ObjectMeta, topsv1.AnnotationHold, daemonset.HoldValue(since, message))
		return true, nil
	}, topsv1.AnnotationHold, daemonset.HoldValue(time.Now(), message))
	switch {
	case err != nil:
		return err
	case before == nil:
		out.say("node %s is held: it is excluded from upgrades, and what is in flight continues; kubectl gcu release %s releases it", name, name)
	case message == "" || message == before.Message:
		out.say("node %s is already held: %s", name, before.Words(name))
	default:
		out.say("node %s is already held; its message was changed", name)
	}
	return nil
}

// changeOrCreate changes the NodeUpgrade of a node, or creates it with an annotation if there is none. One that the node
// agent or the operator creates meanwhile is changed.
func changeOrCreate(ctx context.Context, cl *cluster, name string, edit func(*topsv1.NodeUpgrade) (bool, error), key, value string) error {
	err := change(ctx, cl, "", name, edit)
	if !denial.IsNotFound(err) {
		return err
	}
	err = createAnnotated(ctx, cl, name, key, value)
	switch {
	case denial.IsAlreadyExists(err):
		return change(ctx, cl, "", name, edit)
	case denial.ByAdmission(err):
		return fmt.Errorf("creating the NodeUpgrade of node %s: %w; have that webhook or policy accept it, or try again when the node agent has created it", name, err)
	}
	return err
}

// createAnnotated creates the NodeUpgrade of a node, owned by the Node, with an annotation.
func createAnnotated(ctx context.Context, cl *cluster, name, key, value string) error {
	var node corev1.Node
	if err := cl.read(ctx, "", name, &node); apierrors.IsNotFound(err) {
		return refused("there is no node %s", name)
	} else if err != nil {
		return err
	}
	if err := cl.mayChange(&topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return err
	}
	upgrade := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{
		Name:            name,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}},
		Annotations:     map[string]string{key: value},
	}}
	anonymous := upgrade.DeepCopy()
	return explain(tryWithRequester(cl.recordRequester(ctx, &topsv1.NodeUpgrade{}, upgrade), upgrade, anonymous, func(o client.Object) error {
		return cl.Create(ctx, o, client.FieldOwner(fieldManager))
	}), "create", "")
}

func releaseNode(ctx context.Context, out terminal, cl *cluster, name string) error {
	var before *daemonset.Hold
	var others []daemonset.Hold
	err := change(ctx, cl, "", name, func(upgrade *topsv1.NodeUpgrade) (bool, error) {
		before = daemonset.OfAdministrator(upgrade)
		others = slices.DeleteFunc(daemonset.HoldsOf(upgrade), func(h daemonset.Hold) bool { return h.By == daemonset.ByAdministrator })
		delete(upgrade.Annotations, topsv1.AnnotationHold)
		return before != nil, nil
	})
	if denial.IgnoreNotFound(err) != nil {
		return err
	}
	if before == nil {
		out.say("no administrator holds node %s", name)
	} else {
		out.say("node %s is released", name)
	}
	if len(others) > 0 {
		out.say("it is still held: %s", daemonset.HoldWords(others, name))
	}
	return nil
}

// completeHeldNodes completes a node held by an administrator.
func completeHeldNodes(c connection) completion {
	return completes(c, func(ctx context.Context, cl *cluster, args []string) ([]string, error) {
		var l topsv1.NodeUpgradeList
		if err := cl.all(ctx, "", &l); err != nil || len(args) > 0 {
			return nil, err
		}
		return namesOf(slices.DeleteFunc(l.Items, func(u topsv1.NodeUpgrade) bool { return daemonset.OfAdministrator(&u) == nil })), nil
	})
}
