package main

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/gcucli/dashboard"
	world "github.com/topsops/gcu-operator/test/fixture"
)

// clusterOf connects as the user of a site.
func clusterOf(t *testing.T, s *site) *cluster {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(true)
	*flags.KubeConfig, *flags.Namespace = s.kubeconfig, ""
	cl, err := connection{flags}.connect()
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// TestTheDashboardShowsChangesAndActs: what a watch sees reaches the page, and a button does what the
// command does.
func TestTheDashboardShowsChangesAndActs(t *testing.T) {
	s := newSite(t)
	gr := s.gr("shown")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	source, err := newSource(ctx, clusterOf(t, s))
	if err != nil {
		t.Fatal(err)
	}
	// shows reads until a gr is as wanted.
	shows := func(what string, is func(dashboard.Resource) bool) {
		t.Helper()
		for {
			resources, err := source.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if i := slices.IndexFunc(resources, func(r dashboard.Resource) bool { return r.Status.Name == "shown" }); i >= 0 && is(resources[i]) {
				return
			}
			select {
			case <-source.Changed():
			case <-ctx.Done():
				t.Fatalf("it never shows %s", what)
			}
		}
	}
	shows("the gr", func(dashboard.Resource) bool { return true })
	if said, err := press(ctx, source, dashboard.Action{Verb: dashboard.Pause, GR: "shown"}); err != nil || !strings.Contains(said, "is paused") {
		t.Fatalf("pause says %q: %v", said, err)
	}
	if s.read(gr); gr.Annotations[topsv1.AnnotationPaused] != "true" {
		t.Errorf("the gr is not paused: %v", gr.Annotations)
	}
	s.rollout("shown", topsv1.DaemonRolloutStatus{Total: 3, Updated: 1})
	shows("the rollout", func(r dashboard.Resource) bool { return r.Status.Rollout != nil && r.Status.Rollout.Nodes.Updated == 1 })
	if said, err := press(ctx, source, dashboard.Action{Verb: dashboard.Approve, GR: "shown", Target: "main"}); err == nil {
		t.Errorf("a gr without a policy has a wave: %s", said)
	}
	if _, err := source.Do(ctx, dashboard.Action{Verb: "delete", GR: "shown", Seen: "{}"}); err == nil {
		t.Error("there is an action delete")
	}
	s.create(&topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "shown-policy"}, Spec: topsv1.UpgradePolicySpec{Window: &topsv1.MaintenanceWindow{Start: "10:00", DurationMinutes: 1440}, Waves: []topsv1.Wave{{Name: "canary", Size: ptr.To(intstr.FromInt32(1))}}}})
	s.create(&topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "shown-plan"}, Spec: topsv1.UpgradePlanSpec{GcuResource: "shown", Revision: "r1",
		Jobs:    []topsv1.PlannedJob{{Name: "j", Stages: []topsv1.PlannedStage{{"driver_replace"}}}},
		Batches: []topsv1.PlannedBatch{{Name: "b", Jobs: []topsv1.PlannedNodes{{Job: "j", Nodes: []string{"shown-1"}}}}}}})
	s.read(gr)
	gr.Annotations[topsv1.AnnotationUpgradePolicy], gr.Annotations[topsv1.AnnotationUpgradePlan] = "shown-policy", "shown-plan"
	if err := s.Update(ctx, gr); err != nil {
		t.Fatal(err)
	}
	shows("its waves, its window and its plan", func(r dashboard.Resource) bool {
		return r.Wave != nil && len(r.Status.Rollout.Windows) == 1 && r.Status.Rollout.Windows[0].Open && r.Plan != nil && r.Plan.Name == "shown-plan" && r.Result.Revision == "r1"
	})
}

// press does what a button does: it asks what the action would do, and confirms it.
func press(ctx context.Context, source *source, a dashboard.Action) (string, error) {
	would, err := source.DryRun(ctx, a)
	if err != nil {
		return "", err
	}
	a.Seen = would.Seen
	return source.Do(ctx, a)
}

// TestEveryButtonWritesWhatItsCommandDoes: in this order each verb has something to do.
func TestEveryButtonWritesWhatItsCommandDoes(t *testing.T) {
	s := newSite(t)
	s.fleet("pressed")
	policy := &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "pressed"}, Spec: topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{{Name: "main", Size: ptr.To(intstr.FromInt32(1)), Approval: topsv1.ApprovalManual}}}}
	s.create(policy)
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "pressed"}}
	s.read(gr)
	metav1.SetMetaDataAnnotation(&gr.ObjectMeta, topsv1.AnnotationUpgradePolicy, policy.Name)
	if err := s.Update(t.Context(), gr); err != nil {
		t.Fatal(err)
	}
	before := s.revision(gr, 1, "0.9")
	s.revision(gr, 2, "1.0")
	s.change("pressed", func(status *topsv1.DaemonRolloutStatus) {
		status.Waves = []topsv1.WaveStatus{{Name: "main", Total: 1}}
	})
	dro := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "pressed"}}
	nu := s.upgrade("pressed-2", nil)
	source, pressed := &source{live: clusterOf(t, s)}, map[dashboard.Verb]bool{}
	for _, tt := range []struct {
		verb       dashboard.Verb
		target     string
		object     client.Object
		annotation string
		begins     string
	}{
		{dashboard.Pause, "", gr, topsv1.AnnotationPaused, "true"},
		{dashboard.Resume, "", gr, topsv1.AnnotationPaused, ""},
		{dashboard.Approve, "main", dro, topsv1.AnnotationApprovedWaves, "r/main"},
		{dashboard.Hold, "pressed-2", nu, topsv1.AnnotationHold, "20"},
		{dashboard.Release, "pressed-2", nu, topsv1.AnnotationHold, ""},
		{dashboard.Retry, "pressed-2_driver_verify", nu, topsv1.AnnotationTaskOverride, "retry:pressed-2_driver_verify:20"},
		{dashboard.Rollback, "", gr, topsv1.AnnotationRollbackTo, before},
	} {
		s.read(tt.object)
		was := tt.object.GetAnnotations()[tt.annotation]
		if said, err := press(t.Context(), source, dashboard.Action{Verb: tt.verb, GR: "pressed", Target: tt.target}); err != nil || said == "" {
			t.Errorf("%s says %q: %v", tt.verb, said, err)
		}
		s.read(tt.object)
		if is := tt.object.GetAnnotations()[tt.annotation]; is == was || !strings.HasPrefix(is, tt.begins) || tt.begins == "" && is != "" {
			t.Errorf("%s makes %q of %q in %s", tt.verb, is, was, tt.annotation)
		}
		pressed[tt.verb] = true
	}
	if len(pressed) != len(dashboard.Verbs) {
		t.Errorf("only %v were pressed", pressed)
	}
}

// TestTheDashboardListensOnLoopback: with a token in its address, until it is stopped.
func TestTheDashboardListensOnLoopback(t *testing.T) {
	r, stop := newSite(t).start("dashboard")
	r.shows("Ctrl-C ends it")
	address, _, _ := strings.Cut(r.screen.String(), "\n")
	at, err := url.Parse(address)
	if err != nil || at.Hostname() != "127.0.0.1" || len(at.Query().Get("token")) < 20 {
		t.Errorf("its address is %q (%v)", address, err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+at.Host, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token it answers %s (%v)", response.Status, err)
	}
	stop()
	if code := <-r.code; code != exitOK {
		t.Errorf("code %d after it was stopped:\n%s", code, r.screen.String())
	}
}

// TestTheDashboardSaysWhatAButtonWouldDo: the API server itself, without changing anything; and what has changed since is not
// acted on.
func TestTheDashboardSaysWhatAButtonWouldDo(t *testing.T) {
	s := newSite(t)
	source := &source{live: clusterOf(t, s)}
	s.fleet("asked")
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "asked"}}
	s.read(gr)
	ask := func(a dashboard.Action) dashboard.DryRun {
		t.Helper()
		would, err := source.DryRun(t.Context(), a)
		if err != nil || would.Seen == "" {
			t.Fatalf("%s: %+v, %v", a.Verb, would, err)
		}
		return would
	}
	pause := dashboard.Action{Verb: dashboard.Pause, GR: "asked"}
	pause.Seen = ask(pause).Seen
	if s.read(gr); gr.Annotations[topsv1.AnnotationPaused] != "" {
		t.Fatal("asking pauses")
	}
	gr.Spec.Driver.Version = "2.0"
	if err := s.Update(t.Context(), gr); err != nil {
		t.Fatal(err)
	}
	if said, err := source.Do(t.Context(), pause); err == nil || !strings.Contains(err.Error(), "gr asked has changed since") {
		t.Errorf("after a change of the spec: %q, %v", said, err)
	}
	if s.read(gr); gr.Annotations[topsv1.AnnotationPaused] != "" {
		t.Error("what was refused is done")
	}

	hold := dashboard.Action{Verb: dashboard.Hold, GR: "asked", Target: "asked-1"}
	hold.Seen = ask(hold).Seen
	upgrade := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: "asked-1"}}
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(upgrade), upgrade); err == nil {
		t.Fatal("asking creates a NodeUpgrade")
	}
	s.create(upgrade)
	if said, err := source.Do(t.Context(), hold); err == nil || !strings.Contains(err.Error(), "nu asked-1 has changed since") {
		t.Errorf("after the NodeUpgrade was created: %q, %v", said, err)
	}
	if said, err := press(t.Context(), source, hold); err != nil || !strings.Contains(said, "node asked-1 is held") {
		t.Errorf("hold says %q: %v", said, err)
	}

	before := s.revision(gr, 1, "1.0")
	back := ask(dashboard.Action{Verb: dashboard.Rollback, GR: "asked"})
	if back.Revision != before || !slices.Equal(back.Changes, []string{"driver.version: 2.0 -> 1.0"}) || back.Nodes == nil && back.NotShown == nil {
		t.Errorf("rollback is about %+v", back)
	}
	if s.read(gr); gr.Annotations[topsv1.AnnotationRollbackTo] != "" {
		t.Error("asking rolls back")
	}
}

// TestTheDashboardApprovesTheWaveThatItShowed: a policy that was edited, or another policy, may give it other nodes.
func TestTheDashboardApprovesTheWaveThatItShowed(t *testing.T) {
	s := newSite(t)
	source := &source{live: clusterOf(t, s)}
	waves := topsv1.UpgradePolicySpec{Waves: []topsv1.Wave{{Name: "main", Selector: &metav1.LabelSelector{}, Approval: topsv1.ApprovalManual}}}
	policy := &topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "same-a"}, Spec: waves}
	s.create(policy)
	s.create(&topsv1.UpgradePolicy{ObjectMeta: metav1.ObjectMeta{Name: "same-b"}, Spec: waves})
	gr := s.gr("same", topsv1.AnnotationUpgradePolicy, "same-a")
	s.rollout("same", topsv1.DaemonRolloutStatus{Revision: "r1", Waves: []topsv1.WaveStatus{{Name: "main", Total: 5}, {Name: "rest"}}})
	approve := dashboard.Action{Verb: dashboard.Approve, GR: "same", Target: "main"}
	for _, tt := range []struct {
		want string
		edit func() error
	}{
		{"policy same-a has changed", func() error {
			policy.Spec.Waves[0].Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"more": "nodes"}}
			return s.Update(t.Context(), policy)
		}},
		{"gr same has changed", func() error {
			gr.Annotations[topsv1.AnnotationUpgradePolicy] = "same-b"
			return s.Update(t.Context(), gr)
		}},
	} {
		would, err := source.DryRun(t.Context(), approve)
		if err != nil {
			t.Fatal(err)
		}
		if err := tt.edit(); err != nil {
			t.Fatal(err)
		}
		approve.Seen = would.Seen
		if said, err := source.Do(t.Context(), approve); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q, %v; want that %s", said, err, tt.want)
		}
	}
	if said, err := press(t.Context(), source, approve); err != nil || !strings.Contains(said, "wave main of gr same is approved") {
		t.Errorf("%q, %v", said, err)
	}
}

// TestTheDashboardSaysWhoRefuses: admission, and the rights of the user, refuse a dry run as they refuse the request.
func TestTheDashboardSaysWhoRefuses(t *testing.T) {
	s := newSite(t)
	s.gr("refused")
	s.create(&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{ResourceNames: []string{"refused"},
			RuleWithOperations: admissionv1.RuleWithOperations{Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule: admissionv1.Rule{APIGroups: []string{topsv1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"gcuresources"}}}}}},
		Validations: []admissionv1.Validation{{Expression: "false", Message: "not on a Friday"}}}})
	s.create(&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "refused", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}})
	pause := dashboard.Action{Verb: dashboard.Pause, GR: "refused"}
	asAdmin := &source{live: clusterOf(t, s)}
	s.eventually("a refusal by admission", func() bool {
		would, err := asAdmin.DryRun(t.Context(), pause)
		return would.Seen == "" && err != nil && strings.Contains(err.Error(), "not on a Friday")
	})
	asViewer := &source{live: clusterOf(t, s.as("dashboard-viewer-only",
		rbacv1.PolicyRule{APIGroups: []string{topsv1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}))}
	if would, err := asViewer.DryRun(t.Context(), pause); err == nil || would.Seen != "" || !strings.Contains(err.Error(), "missing permission: patch gcuresources") {
		t.Errorf("without the right to patch: %+v, %v", would, err)
	}
}

// TestTheDashboardOffersWhatOneMayDo: patch alone changes nothing, because admission asks for the verb.
func TestTheDashboardOffersWhatOneMayDo(t *testing.T) {
	s := newSite(t)
	group := []string{topsv1.GroupVersion.Group}
	read := rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}
	for user, tt := range map[string]struct {
		rules []rbacv1.PolicyRule
		want  []dashboard.Verb
	}{
		"viewer":  {nil, nil},
		"patcher": {[]rbacv1.PolicyRule{{APIGroups: group, Resources: []string{"*"}, Verbs: []string{"patch"}}}, nil},
		"pauser":  {[]rbacv1.PolicyRule{{APIGroups: group, Resources: []string{"gcuresources"}, Verbs: []string{"patch", "pause"}}}, []dashboard.Verb{dashboard.Pause}},
		"editor":  {[]rbacv1.PolicyRule{{APIGroups: group, Resources: []string{"*"}, Verbs: []string{"patch", "update"}}}, dashboard.Verbs},
	} {
		t.Run(user, func(t *testing.T) {
			source := &source{live: clusterOf(t, s.as("dashboard-"+user, append(tt.rules, read)...))}
			var may []dashboard.Verb
			for _, verb := range dashboard.Verbs {
				if source.May(t.Context(), verb) {
					may = append(may, verb)
				}
			}
			if !slices.Equal(may, tt.want) {
				t.Errorf("%s may %v, want %v", user, may, tt.want)
			}
		})
	}
}

// TestTheDashboardAsksTheAPIServer: not its caches, whether it can be reached.
func TestTheDashboardAsksTheAPIServer(t *testing.T) {
	cl := clusterOf(t, newSite(t))
	if err := (&source{live: cl}).Reach(t.Context()); err != nil {
		t.Errorf("it cannot be reached: %v", err)
	}
	nowhere := rest.CopyConfig(cl.config)
	nowhere.Host = "https://127.0.0.1:1"
	c, err := client.New(nowhere, client.Options{Scheme: cl.Scheme(), Mapper: cl.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&source{live: &cluster{Client: c, config: nowhere}}).Reach(t.Context()); err == nil {
		t.Error("an API server that is not there can be reached")
	}
}

func TestTheDashboardNamesTheMissingRight(t *testing.T) {
	s := newSite(t).as("no-nodes", rbacv1.PolicyRule{APIGroups: []string{topsv1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}})
	s.says(s.gcu("dashboard"), exitForbidden, "missing permission: list nodes cluster-wide")
}

// What it keeps of a pod shows what the whole pod shows.
func TestTheDashboardKeepsWhatNodesAreJudgedBy(t *testing.T) {
	ds := world.ComponentOf("driver")
	for _, gate := range []string{topsv1.GateRemoved, topsv1.GateAwaitingUpgrade} {
		pod := world.Unbound(world.PodOn(ds, "a", world.NewHash))
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}}
		kept := pod.DeepCopy()
		if _, err := trimmed(kept); err != nil {
			t.Fatal(err)
		}
		if daemonset.NodeName(kept) != "a" || daemonset.IsPlaceholder(kept) != daemonset.IsPlaceholder(pod) || daemonset.AwaitsUpgrade(kept) != daemonset.AwaitsUpgrade(pod) {
			t.Errorf("of a pod with gate %s it keeps %+v", gate, kept.Spec)
		}
	}
}
