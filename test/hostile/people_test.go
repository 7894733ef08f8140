package hostile

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/askedby"
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
	signed := func(user string) func() error {
		return func() error {
			return merge(t.Context(), operator, f.gr, `{"metadata":{"annotations":{"topsops.enflame.com/paused":"true","topsops.enflame.com/asked-by":"`+someTime+` pause `+user+`"}}}`, client.DryRunAll)
		}
	}
	allowed(t, "sign a pause", signed("operating"))
	refused(t, "sign a pause as another", signed("administering"))
	refused(t, "sign a pause as another, with one's own name after it", signed("administering operating"))
	refused(t, "hold a node as another", func() error {
		u := held("people-new", "people-new")
		u.Annotations[topsv1.AnnotationAskedBy] = someTime + " hold administering"
		return operator.Create(t.Context(), u, client.DryRunAll)
	})
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
	if asked := askedby.Of(rollout.Annotations); rollout.Annotations[topsv1.AnnotationResume] == "" || asked.Verb != askedby.Resume || asked.User != "operating" {
		t.Errorf("the rollout was not resumed, or nobody did it: %v", rollout.Annotations)
	}
	later := nodeUpgrade("people-later", "u")
	check(t, s.Client(t, apiserver.Admin).Get(t.Context(), client.ObjectKeyFromObject(later), later))
	if asked := askedby.Of(later.Annotations); asked.Verb != askedby.Release || asked.User != "operating" {
		t.Errorf("nobody released node people-later: %v", later.Annotations)
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
		"write the status of a node", "create a NodeUpgrade with an operation", "create a plan", "edit a plan"} {
		allowed(t, what, f.edits(t.Context(), manager)[what])
	}
	refused(t, "the manager: delete a plan", f.edits(t.Context(), manager)["delete a plan"])
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
