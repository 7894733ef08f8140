package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/dashboard"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/message"
	"github.com/topsops/gcu-operator/pkg/preview"
)

// rights are the resources of the right that a verb needs in addition to patch: its own verb, or update.
var rights = map[dashboard.Verb]string{dashboard.Pause: "gcuresources", dashboard.Resume: "gcuresources", dashboard.Approve: "daemonrollouts",
	dashboard.Rollback: "gcuresources", dashboard.Hold: "nodeupgrades", dashboard.Release: "nodeupgrades", dashboard.Retry: "nodeupgrades"}

// May implements dashboard.Source. Without a response it is false.
func (s *source) May(ctx context.Context, verb dashboard.Verb) bool {
	own := string(verb)
	if verb == dashboard.Rollback {
		own = "update"
	}
	for _, verbs := range [][]string{{"patch"}, {own, "update"}} {
		if !slices.ContainsFunc(verbs, func(v string) bool {
			allowed, err := s.allowed(ctx, topsv1.GroupVersion.Group, rights[verb], v)
			return allowed && err == nil
		}) {
			return false
		}
	}
	return true
}

// DryRun implements dashboard.Source.
func (s *source) DryRun(ctx context.Context, a dashboard.Action) (dashboard.DryRun, error) {
	seen := shownState{Marks: map[string]string{}}
	dry := *s.live
	dry.Client, dry.check = client.NewDryRunClient(s.live.Client), seen.note
	would, err := s.predict(ctx, a)
	if err != nil {
		return would, err
	}
	if a.Verb == dashboard.Rollback {
		seen.To = would.Revision
	}
	if would.Says, err = carryOut(ctx, &dry, a, seen.To); err != nil {
		return would, err
	}
	would.Seen, err = seen.value()
	return would, err
}

// Do implements dashboard.Source.
func (s *source) Do(ctx context.Context, a dashboard.Action) (string, error) {
	var seen shownState
	if err := json.Unmarshal([]byte(a.Seen), &seen); err != nil {
		return "", usageError("reading what was seen: %w", err)
	}
	as := *s.live
	as.check = seen.compare
	return carryOut(ctx, &as, a, seen.To)
}

// shownState is the state that was shown to the user before an action.
type shownState struct {
	// Marks are those of the objects that it changes, by kind.
	Marks map[string]string `json:"marks"`
	// To is the revision of a rollback.
	To string `json:"to,omitempty"`
}

// note adds the mark of an object.
func (s *shownState) note(o client.Object) error {
	kind, mark, err := markOf(o)
	s.Marks[kind] = mark
	return err
}

// compare returns a refusal if an object is not as it was seen.
func (s *shownState) compare(o client.Object) error {
	kind, mark, err := markOf(o)
	if err == nil && s.Marks[kind] != mark {
		err = refused("%s %s has changed since you were shown what this would do: look again", kind, o.GetName())
	}
	return err
}

func (s *shownState) value() (string, error) {
	data, err := json.Marshal(s)
	return string(data), err
}

// markOf returns the kind of an object, and a mark that changes with everything that a person's decision depends on:
// the spec, pending requests, and the state of the rollout or the operation. Counts of nodes, which keep
// changing in a rollout, are not part of it.
func markOf(o client.Object) (kind, mark string, err error) {
	facts := []any{o.GetUID(), o.GetGeneration()}
	annotations := func(keys ...string) {
		for _, key := range keys {
			facts = append(facts, o.GetAnnotations()[key])
		}
	}
	switch o := o.(type) {
	case *topsv1.GcuResource:
		kind = "gr"
		annotations(topsv1.AnnotationPaused, topsv1.AnnotationRollbackTo, topsv1.AnnotationUpgradeOnly, topsv1.AnnotationUpgradePolicy, topsv1.AnnotationUpgradePlan)
	case *topsv1.DaemonRollout:
		kind = "dro"
		annotations(topsv1.AnnotationResume)
		facts = append(facts, o.Status.Revision, o.Status.LimitedTo, halted(o), o.Status.FailedNodes, o.Status.Rollback)
	case *topsv1.UpgradePolicy:
		kind = "policy"
	case *topsv1.NodeUpgrade:
		kind = "nu"
		annotations(topsv1.AnnotationHold, topsv1.AnnotationTaskOverride)
		if op := o.Status.Operation; op != nil {
			facts = append(facts, op.ID, op.Phase, op.Held)
		}
	default:
		return "", "", fmt.Errorf("a %T has no mark", o)
	}
	data, err := json.Marshal(facts)
	sum := sha256.Sum256(data)
	return kind, hex.EncodeToString(sum[:8]), err
}

// predict reads what an action is about: the revision of approve and rollback, and the nodes.
func (s *source) predict(ctx context.Context, a dashboard.Action) (would dashboard.DryRun, err error) {
	if a.Verb != dashboard.Approve && a.Verb != dashboard.Rollback {
		return would, nil
	}
	gr, err := s.live.resource(ctx, []string{a.GR})
	if err != nil {
		return would, err
	}
	if a.Verb == dashboard.Rollback {
		return s.foreseeRollback(ctx, gr)
	}
	dro, err := s.live.rollout(ctx, a.GR)
	if err != nil {
		return would, err
	} else if dro == nil {
		return would, s.live.noRollout(ctx, gr)
	}
	would.Revision = dro.Status.Revision
	for _, w := range dro.Status.Waves {
		if w.Name == a.Target || strings.HasPrefix(w.Name, a.Target+"/") { // a wave has all its batches of a plan
			if would.Nodes == nil {
				would.Nodes = new(int)
			}
			*would.Nodes += int(w.Total - w.Updated)
		}
	}
	deployed, err := s.live.inForce(ctx, gr, dro)
	if err != nil {
		would.NotShown = append(would.NotShown, "the images: "+err.Error())
		return would, nil
	}
	would.Images, err = component.Images(deployed)
	return would, err
}

// foreseeRollback reads what the rollback of a gr leads to.
func (s *source) foreseeRollback(ctx context.Context, gr *topsv1.GcuResource) (would dashboard.DryRun, err error) {
	target, err := restored(ctx, s.live, gr, "")
	if err != nil {
		return would, err
	}
	would.Revision = target.Name
	changes, err := display.ChangesOf(&gr.Spec, target.Spec)
	if err != nil {
		return would, err
	}
	for _, c := range changes {
		would.Changes = append(would.Changes, c.String())
	}
	back := gr.DeepCopy()
	back.Spec = *target.Spec
	if would.Images, err = component.Images(back); err != nil {
		return would, err
	}
	present, err := component.Images(gr)
	if err != nil {
		return would, err
	}
	would.Images = slices.DeleteFunc(would.Images, func(image string) bool { return slices.Contains(present, image) })
	prediction, err := s.live.predictor().Ask(ctx, preview.Question{Present: gr, Wanted: back, Approved: true})
	if err != nil {
		would.NotShown = append(would.NotShown, "which nodes go back: "+explain(err, "list", "").Error())
		return would, nil
	}
	if prediction.Blocked != "" {
		would.NotShown = append(would.NotShown, prediction.Blocked)
		return would, nil
	}
	nodes := slices.Clone(prediction.InFlight)
	for i := range prediction.Nodes {
		nodes = append(nodes, prediction.Nodes[i].Name)
	}
	slices.Sort(nodes)
	count := len(nodes)
	would.Nodes, would.Names = &count, message.Names(nodes)
	return would, nil
}

// carryOut carries out an action, and returns what it said; to is the revision of a rollback.
func carryOut(ctx context.Context, cl *cluster, a dashboard.Action, to string) (string, error) {
	var said bytes.Buffer
	err := perform(ctx, terminal{genericiooptions.IOStreams{Out: &said, ErrOut: &said}}, cl, a, to)
	return said.String(), err
}

func perform(ctx context.Context, out terminal, cl *cluster, a dashboard.Action, to string) error {
	switch a.Verb {
	case dashboard.Pause:
		_, err := setPaused(ctx, cl, a.GR, true)
		if err == nil {
			out.say("gr %s is paused", a.GR)
		}
		return err
	case dashboard.Resume:
		return resumeRollout(ctx, out, cl, a.GR)
	case dashboard.Rollback:
		return rollBack(ctx, out, cl, a.GR, to)
	case dashboard.Approve:
		gr, err := cl.resource(ctx, []string{a.GR})
		if err != nil {
			return err
		}
		g, err := readApprovalSources(ctx, cl, gr)
		if err != nil {
			return err
		}
		if err := cl.mayChange(gr); err != nil { // it names the policy
			return err
		}
		if g.policy != nil {
			if err := cl.mayChange(g.policy); err != nil { // it says which nodes the wave has
				return err
			}
		}
		return approveWave(ctx, out, cl, gr, a.Target, g)
	case dashboard.Hold:
		return holdNode(ctx, out, cl, a.Target, "")
	case dashboard.Release:
		return releaseNode(ctx, out, cl, a.Target)
	case dashboard.Retry:
		node, _, _ := strings.Cut(a.Target, "_")
		if _, err := overrideTask(ctx, cl, node, string(a.Verb), a.Target); err != nil {
			return err
		}
		out.say("node %s: %s of task %s is requested", node, a.Verb, a.Target)
		return nil
	}
	return usageError("there is no action %q", a.Verb)
}
