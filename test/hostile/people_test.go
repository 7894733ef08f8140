package hostile

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// person is a user with the rights of some ClusterRoles.
type person struct {
	client.Client
	kubeconfig string
}

// personWith returns a user whom the shipped ClusterRoles are bound to.
func personWith(t *testing.T, s *apiserver.Server, name string, roles ...string) person {
	t.Helper()
	for _, role := range roles {
		bind(t, s, name, role)
	}
	user, err := s.AddUser(envtest.User{Name: name}, nil)
	check(t, err)
	kubeconfig, err := user.KubeConfig()
	check(t, err)
	p := person{kubeconfig: filepath.Join(t.TempDir(), "kubeconfig")}
	check(t, os.WriteFile(p.kubeconfig, kubeconfig, 0o600))
	p.Client, err = client.New(user.Config(), client.Options{Scheme: s.Scheme})
	check(t, err)
	s.AwaitRights(t, name)
	return p
}

// bind binds a ClusterRole to a user.
func bind(t *testing.T, s *apiserver.Server, user, role string) {
	t.Helper()
	check(t, s.Client(t, apiserver.Admin).Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user + "-" + role},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}}))
}

// roleOf creates a ClusterRole as an administrator may have written it.
func roleOf(t *testing.T, s *apiserver.Server, name string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	check(t, s.Client(t, apiserver.Admin).Create(t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}))
}

// gcu runs the plugin as the person.
func (p person) gcu(t *testing.T, program string, args ...string) (string, error) {
	output, err := exec.CommandContext(t.Context(), program, append(args, "--kubeconfig", p.kubeconfig, "--cache-dir", t.TempDir())...).CombinedOutput()
	return string(output), err
}

// fleet is what people work with: a gr with its rollout, a node with an operation, one without a
// NodeUpgrade, and a DaemonSet outside of grs.
type fleet struct {
	gr      *topsv1.GcuResource
	rollout *topsv1.DaemonRollout
	upgrade *topsv1.NodeUpgrade
	set     *appsv1.DaemonSet
	plan    *topsv1.UpgradePlan
}

// anOperation is an order to a node.
const anOperation = `{"id":"o1","nodeUID":"u","targets":[{"component":"driver","daemonSet":{"namespace":"a","name":"b","uid":"c"},"revision":"r"}],"job":[["people_driver_verify"]]}`

func newFleet(t *testing.T, s *apiserver.Server) fleet {
	t.Helper()
	admin, manager := s.Client(t, apiserver.Admin), s.Client(t, apiserver.Operator)
	f := fleet{
		gr: &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "people", Annotations: map[string]string{topsv1.AnnotationUpdateStrategy: "OTA"}},
			Spec: topsv1.GcuResourceSpec{GFD: &topsv1.BaseFields{NotDeploy: true}}},
		rollout: &topsv1.DaemonRollout{ObjectMeta: inOperators("people"), Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: topsv1.GcuResourceKind, Name: "people"}}},
		set:     daemonSet("people", ""),
		plan:    planFor("people"),
	}
	f.set.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "OTA", topsv1.AnnotationUpgradePolicy: "people"}
	check(t, admin.Create(t.Context(), f.gr))
	check(t, admin.Create(t.Context(), f.set))
	check(t, admin.Create(t.Context(), f.plan))
	check(t, manager.Create(t.Context(), f.rollout))
	f.rollout.Status = topsv1.DaemonRolloutStatus{Strategy: "OTA", Total: 2, FailedNodes: 1, Revision: "r"}
	check(t, manager.Status().Update(t.Context(), f.rollout))
	f.upgrade = addNode(t, s, "people")
	check(t, merge(t.Context(), manager, f.upgrade, `{"spec":{"operation":`+anOperation+`}}`))
	for _, name := range []string{"people-new", "people-later"} {
		check(t, admin.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	return f
}

// edits are what only people with the right to update may do.
func (f fleet) edits(ctx context.Context, c client.Client) map[string]func() error {
	patch := func(o client.Object, data string) func() error {
		return func() error { return merge(ctx, c, o, data, client.DryRunAll) }
	}
	status := func(o client.Object, data string) func() error {
		return func() error {
			return c.Status().Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch("application/merge-patch+json", []byte(data)), client.DryRunAll)
		}
	}
	edits := map[string]func() error{
		"edit the spec of a gr":                   patch(f.gr, `{"spec":{"gfd":{"notDeploy":false}}}`),
		"change an image":                         patch(f.gr, `{"spec":{"driver":{"image":"evil"}}}`),
		"edit the spec along with a pause":        patch(f.gr, `{"metadata":{"annotations":{"topsops.enflame.com/paused":"true"}},"spec":{"gfd":{"notDeploy":false}}}`),
		"pause with a wrong value":                patch(f.gr, `{"metadata":{"annotations":{"topsops.enflame.com/paused":"maybe"}}}`),
		"write somebody else's annotation":        patch(f.gr, `{"metadata":{"annotations":{"example.com/owner":"me"}}}`),
		"label a gr":                              patch(f.gr, `{"metadata":{"labels":{"a":"b"}}}`),
		"take the finalizer of a gr away":         patch(f.gr, `{"metadata":{"finalizers":["example.com/x"]}}`),
		"own a gr":                                patch(f.gr, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"people","uid":"u"}]}}`),
		"annotate a rollout with a pause":         patch(f.rollout, `{"metadata":{"annotations":{"topsops.enflame.com/paused":"true"}}}`),
		"order an operation":                      patch(f.upgrade, `{"spec":{"operation":{"id":"o2"}}}`),
		"abort an operation":                      patch(f.upgrade, `{"spec":{"operation":{"abort":true}}}`),
		"skip a task":                             patch(f.upgrade, `{"metadata":{"annotations":{"topsops.enflame.com/task-override":"skip:people_driver_verify"}}}`),
		"take an override back":                   patch(f.upgrade, `{"metadata":{"annotations":{"topsops.enflame.com/task-override":"undo:people_driver_verify"}}}`),
		"change the template of a DaemonSet":      patch(f.set, `{"spec":{"template":{"metadata":{"annotations":{"a":"b"}}}}}`),
		"take the strategy of a DaemonSet away":   patch(f.set, `{"metadata":{"annotations":{"topsops.enflame.com/update-strategy":null}}}`),
		"write the status of a gr":                status(f.gr, `{"status":{"phase":"Running"}}`),
		"write the status of a rollout":           status(f.rollout, `{"status":{"failedNodes":0}}`),
		"write the status of a node":              status(f.upgrade, `{"status":{"tasks":null}}`),
		"create a plan":                           func() error { return c.Create(ctx, planFor("people-new"), client.DryRunAll) },
		"edit a plan":                             patch(f.plan, `{"spec":{"revision":"other"}}`),
		"annotate a plan":                         patch(f.plan, `{"metadata":{"annotations":{"a":"b"}}}`),
		"write the status of a plan":              status(f.plan, `{"status":{"done":1}}`),
		"delete a plan":                           func() error { return c.Delete(ctx, f.plan.DeepCopy(), client.DryRunAll) },
		"delete a gr":                             func() error { return c.Delete(ctx, f.gr.DeepCopy(), client.DryRunAll) },
		"create a NodeUpgrade with an operation":  func() error { return c.Create(ctx, ordered("people-new"), client.DryRunAll) },
		"create a NodeUpgrade with an override":   func() error { return c.Create(ctx, overridden("people-new"), client.DryRunAll) },
		"create a NodeUpgrade owned by another":   func() error { return c.Create(ctx, held("people-new", "people"), client.DryRunAll) },
		"create a NodeUpgrade that nothing holds": func() error { return c.Create(ctx, nodeUpgrade("people-new", "u"), client.DryRunAll) },
	}
	for _, name := range []string{topsv1.AnnotationRollbackTo, topsv1.AnnotationUpgradeOnly, topsv1.AnnotationUpgradePolicy, topsv1.AnnotationMaxUnavailable,
		topsv1.AnnotationUpdateStrategy, topsv1.OpenYurtAnnotationMaxUnavailable, topsv1.OpenYurtAnnotationUpdateStrategy, topsv1.AnnotationRolledBackTo,
		topsv1.AnnotationRecreation, topsv1.AnnotationResume, topsv1.AnnotationHold, topsv1.AnnotationUpgradePlan} {
		edits["annotate a gr with "+name] = patch(f.gr, `{"metadata":{"annotations":{"`+name+`":"x"}}}`)
	}
	return edits
}

func planFor(name string) *topsv1.UpgradePlan {
	return &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topsv1.UpgradePlanSpec{GcuResource: "people", Revision: "r",
		Jobs:    []topsv1.PlannedJob{{Name: "gfd", Stages: []topsv1.PlannedStage{{"gfd_replace"}}}},
		Batches: []topsv1.PlannedBatch{{Name: "all", Jobs: []topsv1.PlannedNodes{{Job: "gfd", Nodes: []string{"people"}}}}}}}
}

func held(node, owner string) *topsv1.NodeUpgrade {
	u := nodeUpgrade(node, "u")
	u.OwnerReferences[0].Name = owner
	u.Annotations = map[string]string{topsv1.AnnotationHold: someTime}
	return u
}

func ordered(node string) *topsv1.NodeUpgrade {
	u := held(node, node)
	if err := json.Unmarshal([]byte(anOperation), &u.Spec.Operation); err != nil {
		panic(err)
	}
	return u
}

func overridden(node string) *topsv1.NodeUpgrade {
	u := held(node, node)
	u.Annotations[topsv1.AnnotationTaskOverride] = "retry:x"
	return u
}

// operations are the verbs of gcu-operate as patches; each is named by the verb it needs.
func (f fleet) operations(ctx context.Context, c client.Client) map[string]func() error {
	annotate := func(o client.Object, name, value string) func() error {
		return func() error {
			return merge(ctx, c, o, `{"metadata":{"annotations":{"topsops.enflame.com/`+name+`":`+value+`}}}`, client.DryRunAll)
		}
	}
	return map[string]func() error{
		"pause":    annotate(f.gr, "paused", `"true"`),
		"resume":   annotate(f.rollout, "resume", `"now"`),
		"approve":  annotate(f.rollout, "approved-waves", `"r/main"`),
		"hold":     annotate(f.upgrade, "hold", `"`+someTime+`"`),
		"retry":    annotate(f.upgrade, "task-override", `"retry:people_driver_verify"`),
		"pause ds": annotate(f.set, "paused", `"true"`),
	}
}

// awaitPeoplePolicies waits until the API server enforces the policies for people.
func awaitPeoplePolicies(t *testing.T, f fleet, operator client.Client) {
	t.Helper()
	for _, edit := range []string{"edit the spec of a gr", "create a NodeUpgrade with an operation"} {
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
			return apierrors.IsForbidden(f.edits(ctx, operator)[edit]()), nil
		})
		if err != nil {
			t.Errorf("whoever operates may %s", edit)
		}
	}
}

// TestUsersChangeOnlyWhatTheirRoleAllows: viewing, operating and administering are three roles, although
// RBAC knows no annotations.
func TestUsersChangeOnlyWhatTheirRoleAllows(t *testing.T) {
	s := cluster(t)
	f := newFleet(t, s)
	operator := personWith(t, s, "operating", "gcu-operate", "gcu-operate-daemonsets")
	awaitPeoplePolicies(t, f, operator)
	t.Run("viewing", func(t *testing.T) { viewerChangesNothing(t, s, f) })
	t.Run("operating", func(t *testing.T) { operatorOperates(t, f, operator) })
	t.Run("operating with the plugin", func(t *testing.T) { pluginOperates(t, s, f, operator) })
	t.Run("one verb of operating", func(t *testing.T) { pauserPauses(t, s, f) })
	t.Run("administering", func(t *testing.T) { administratorEdits(t, s, f) })
	t.Run("the manager and the node agents", func(t *testing.T) { programsWork(t, s, f) })
	t.Run("planning", func(t *testing.T) { plannerPlans(t, s, f) })
	t.Run("roles from before", func(t *testing.T) { rolesFromBefore(t, s, f) })
}

func viewerChangesNothing(t *testing.T, s *apiserver.Server, f fleet) {
	viewer := personWith(t, s, "viewing", "gcu-view")
	check(t, viewer.Get(t.Context(), client.ObjectKeyFromObject(f.gr), f.gr.DeepCopy()))
	for role, part := range map[string]bool{"gcu-view": true, "gcu-operate": false, "gcu-admin": false} {
		if got := isPartOfView(t, s.Client(t, apiserver.Admin), role); got != part {
			t.Errorf("role %s is part of view: %t", role, got)
		}
	}
	for what, do := range f.edits(t.Context(), viewer) {
		refused(t, what, do)
	}
	for what, do := range f.operations(t.Context(), viewer) {
		refused(t, what, do)
	}
}

// isPartOfView reports whether all who have the ClusterRole view get the rules of a role, by
// kube-controller-manager, which does not run here.
func isPartOfView(t *testing.T, admin client.Client, role string) bool {
	t.Helper()
	view, part := &rbacv1.ClusterRole{}, &rbacv1.ClusterRole{}
	check(t, admin.Get(t.Context(), client.ObjectKey{Name: "view"}, view))
	check(t, admin.Get(t.Context(), client.ObjectKey{Name: role}, part))
	return slices.ContainsFunc(view.AggregationRule.ClusterRoleSelectors, func(of metav1.LabelSelector) bool {
		selector, err := metav1.LabelSelectorAsSelector(&of)
		check(t, err)
		return selector.Matches(labels.Set(part.Labels))
	})
}

func operatorOperates(t *testing.T, f fleet, operator person) {
	for what, do := range f.operations(t.Context(), operator) {
		allowed(t, what, do)
	}
	for what, do := range f.edits(t.Context(), operator) {
		refused(t, what, do)
	}
	allowed(t, "approve and resume at once", func() error {
		return merge(t.Context(), operator, f.rollout, `{"metadata":{"annotations":{"topsops.enflame.com/resume":"x","topsops.enflame.com/approved-waves":"r/a"}}}`, client.DryRunAll)
	})
	allowed(t, "hold a node that has no NodeUpgrade", func() error { return operator.Create(t.Context(), held("people-new", "people-new"), client.DryRunAll) })
	secret := &corev1.Secret{}
	refused(t, "read a Secret", func() error {
		return operator.Get(t.Context(), client.ObjectKey{Namespace: apiserver.Namespace, Name: "nightingale-mysql"}, secret)
	})
}

func pluginOperates(t *testing.T, s *apiserver.Server, f fleet, operator person) {
	program := program(t, "kubectl-gcu")
	for _, line := range []string{"pause people", "resume people", "resume people", "hold people -m why", "release people", "hold people-later", "release people-later"} {
		if output, err := operator.gcu(t, program, strings.Fields(line)...); err != nil {
			t.Errorf("kubectl gcu %s: %v: %s", line, err, output)
		}
	}
	rollout := f.rollout.DeepCopy()
	check(t, s.Client(t, apiserver.Admin).Get(t.Context(), client.ObjectKeyFromObject(rollout), rollout))
	if rollout.Annotations[topsv1.AnnotationResume] == "" {
		t.Errorf("the rollout was not resumed: %v", rollout.Annotations)
	}
	for _, line := range []string{"abort people", "upgrade people --nodes people"} {
		output, err := operator.gcu(t, program, strings.Fields(line)...)
		if err == nil || !strings.Contains(output, "missing verb update") || strings.Contains(output, "auth can-i patch") {
			t.Errorf("kubectl gcu %s: %v: %s", line, err, output)
		}
	}
}

// pauserPauses: each verb is a right of its own.
func pauserPauses(t *testing.T, s *apiserver.Server, f fleet) {
	roleOf(t, s, "pausing", rbacv1.PolicyRule{APIGroups: []string{topsv1.GroupVersion.Group}, Resources: []string{"gcuresources", "daemonrollouts", "nodeupgrades"},
		Verbs: []string{"get", "patch", "create", "pause"}})
	pauser := personWith(t, s, "pausing", "pausing")
	for what, do := range f.operations(t.Context(), pauser) {
		if what == "pause" {
			allowed(t, what, do)
		} else {
			refused(t, what, do)
		}
	}
	refused(t, "resume what is paused", func() error {
		return merge(t.Context(), pauser, f.gr, `{"metadata":{"annotations":{"topsops.enflame.com/paused":"False"}}}`, client.DryRunAll)
	})
	refused(t, "hold a node that has no NodeUpgrade", func() error { return pauser.Create(t.Context(), held("people-new", "people-new"), client.DryRunAll) })
}

func administratorEdits(t *testing.T, s *apiserver.Server, f fleet) {
	administrator := personWith(t, s, "administering", "gcu-admin")
	for what, do := range f.edits(t.Context(), administrator) {
		if strings.Contains(what, "status") || strings.Contains(what, "DaemonSet") {
			refused(t, what, do) // the manager's, and what else runs in the cluster
		} else if err := do(); apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, do := range f.operations(t.Context(), administrator) {
		if what != "pause ds" {
			allowed(t, what, do)
		}
	}
	refused(t, "store a gr for the manager to create", func() error {
		return administrator.Create(t.Context(), &topsv1.GcuResourceRecreation{ObjectMeta: metav1.ObjectMeta{Name: "people"}}, client.DryRunAll)
	})
}

// programsWork: the policies for people do not hinder the operator, which may patch and not update.
func programsWork(t *testing.T, s *apiserver.Server, f fleet) {
	manager := s.Client(t, apiserver.Operator)
	for _, what := range []string{"edit the spec of a gr", "annotate a gr with " + topsv1.AnnotationRolledBackTo, "order an operation", "change the template of a DaemonSet",
		"write the status of a node", "create a NodeUpgrade with an operation"} {
		allowed(t, what, f.edits(t.Context(), manager)[what])
	}
	for _, what := range []string{"create a plan", "edit a plan", "delete a plan"} {
		refused(t, "the manager: "+what, f.edits(t.Context(), manager)[what])
	}
	allowed(t, "create the NodeUpgrade of its node", func() error {
		return agentOf(t, s, "people-new").Create(t.Context(), nodeUpgrade("people-new", "u"), client.DryRunAll)
	})
}

// plannerPlans: whoever may only write plans has no gr follow one, nor a spec from one.
func plannerPlans(t *testing.T, s *apiserver.Server, f fleet) {
	roleOf(t, s, "planning", rbacv1.PolicyRule{APIGroups: []string{topsv1.GroupVersion.Group}, Resources: []string{"upgradeplans"}, Verbs: []string{"create", "update", "patch", "delete"}})
	planner := personWith(t, s, "planning", "planning")
	for what, do := range f.edits(t.Context(), planner) {
		if strings.HasSuffix(what, " a plan") && !strings.Contains(what, "status") {
			allowed(t, what, do)
		} else {
			refused(t, what, do)
		}
	}
}

// rolesFromBefore: whoever may update an object may change all of it, with no other verb, as before
// there were these roles. DaemonSets of others are nobody's business here.
func rolesFromBefore(t *testing.T, s *apiserver.Server, f fleet) {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: verbs}
	}
	roleOf(t, s, "editing-before", rule(topsv1.GroupVersion.Group, "*", "get", "update", "patch", "create"))
	editor := personWith(t, s, "editing-before", "editing-before")
	for _, what := range []string{"edit the spec of a gr", "annotate a gr with " + topsv1.AnnotationRollbackTo, "abort an operation"} {
		allowed(t, what, f.edits(t.Context(), editor)[what])
	}
	allowed(t, "pause", f.operations(t.Context(), editor)["pause"])
	roleOf(t, s, "patching-before", rule(topsv1.GroupVersion.Group, "gcuresources", "get", "patch"), rule("apps", "daemonsets", "patch"))
	patcher := personWith(t, s, "patching-before", "patching-before")
	refused(t, "edit a spec with patch alone", f.edits(t.Context(), patcher)["edit the spec of a gr"])
	refused(t, "pause with patch alone", f.operations(t.Context(), patcher)["pause"])
	allowed(t, "patch a DaemonSet without our verbs", f.edits(t.Context(), patcher)["change the template of a DaemonSet"])
}

// refused fails the test unless the API server forbids an attempt.
func refused(t *testing.T, what string, attempt func() error) {
	t.Helper()
	if err := attempt(); !apierrors.IsForbidden(err) {
		t.Errorf("%s: the API server says %v, want that it is forbidden", what, err)
	}
}
