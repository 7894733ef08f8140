package upgradeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
	"github.com/topsops/gcu-operator/test/apiserver"
	"github.com/topsops/gcu-operator/test/world"
)

// planned creates a gr whose driver runs on nodes NAME-1 to NAME-3, which are upgraded one at a time.
func (d *testServer) planned(name string) *topsv1.GcuResource {
	d.t.Helper()
	gr := d.create(name, func(gr *topsv1.GcuResource) {
		gr.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: "AdvancedRollingUpdate", topsv1.AnnotationMaxUnavailable: "1"}
	})
	d.must(world.Deploy(gr, d.store))
	return gr
}

// store creates an object with its status that is removed with the test.
func (d *testServer) store(object client.Object) {
	d.t.Helper()
	d.must(apiserver.CreateWithStatus(context.Background(), d.admin, object))
	d.t.Cleanup(func() { d.must(client.IgnoreNotFound(d.admin.Delete(context.Background(), object))) })
}

// planFile returns the plan of an upgrade of the driver, as the file that a caller gets.
func (d *testServer) planFile(name, version string) *topsv1.UpgradePlan {
	d.t.Helper()
	got := d.send(http.MethodPost, "/gum/v1/gr/"+name+"/plan/file?format=yaml", fmt.Sprintf(`{"spec": {"driver": {"version": %q}}}`, version))
	plan := &topsv1.UpgradePlan{}
	if err := yaml.UnmarshalStrict([]byte(got.body), plan); err != nil || got.status != http.StatusOK || got.header.Get("Content-Type") != contentTypeYAML {
		d.t.Fatalf("%d %v: %v: %s", got.status, got.header, err, got.body)
	}
	d.t.Cleanup(func() {
		d.must(client.IgnoreNotFound(d.admin.Delete(context.Background(), &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: plan.Name}})))
	})
	return plan
}

// textOf returns a plan as a file.
func (d *testServer) textOf(plan *topsv1.UpgradePlan) string {
	d.t.Helper()
	content, err := planfile.Content(plan)
	d.must(err)
	text, err := yaml.Marshal(content)
	d.must(err)
	return string(text)
}

// edited returns a plan that a person has changed.
func (d *testServer) edited(plan *topsv1.UpgradePlan, edit func(*topsv1.UpgradePlanSpec)) string {
	plan = plan.DeepCopy()
	edit(&plan.Spec)
	return d.textOf(plan)
}

// Contract 93.
func TestAPlanIsWrittenEditedAndRunOverHTTP(t *testing.T) {
	d := newTestServer(t, planning(t))
	gr := d.planned("mission")
	const path = "/gum/v1/gr/mission/plan"
	d.file("next.json", strings.Replace(blueprint("mission", "2.0.0"), `{"name": "mission"}`,
		`{"name": "mission", "annotations": {"topsops.enflame.com/max-unavailable": "3", "topsops.enflame.com/upgrade-only": "nodes=mission-1,mission-2"}}`, 1))

	got := d.succeeds(http.MethodGet, path+"/file?file=next.json", "")
	plan := &topsv1.UpgradePlan{}
	raw, err := json.Marshal(got.Content)
	d.must(err)
	d.must(json.Unmarshal(raw, plan))
	if b := plan.Spec.Batches; got.Operation != OperationPlan || len(b) != 2 || b[0].Jobs[0].Nodes[0] != "mission-1" {
		t.Errorf("the limit of the blueprint is not that of the plan, or its annotation max-unavailable counts: %s", got.body)
	}
	plan = d.planFile("mission", "2.0.0")
	if len(plan.Spec.Batches) != 3 || !strings.Contains(string(plan.Spec.Wanted.Raw), "2.0.0") {
		t.Fatalf("the plan is %+v", plan.Spec)
	}

	text := d.edited(plan, func(s *topsv1.UpgradePlanSpec) { s.Batches = s.Batches[:2] })
	tried := d.succeeds(http.MethodPut, path+"?dryRun=true", text)
	if tried.object(t).GetAnnotations()[topsv1.AnnotationUpgradePlan] != plan.Name || d.plan(plan.Name) != nil || d.gr("mission").Generation != gr.Generation {
		t.Errorf("a dry run answers %s, and stored %v", tried.body, d.plan(plan.Name))
	}
	if got := d.succeeds(http.MethodPut, path+"?step=true", text); got.body != plainSuccess(OperationUpgrade) {
		t.Errorf("a plan that is run is answered with %s", got.body)
	}
	now, stored := d.gr("mission"), d.plan(plan.Name)
	if now.Annotations[topsv1.AnnotationUpgradePlan] != plan.Name || now.Spec.Driver.Version != "2.0.0" || stored == nil ||
		len(stored.OwnerReferences) != 1 || stored.OwnerReferences[0].UID != gr.UID || stored.Spec.Batches[1].Approval != topsv1.ApprovalManual {
		t.Errorf("the gr has %v, the plan is %+v", now.Annotations, stored)
	}
	for range 2 { // JSON too, and again: nothing changes any more
		raw, err := yaml.YAMLToJSON([]byte(text))
		d.must(err)
		d.succeeds(http.MethodPut, path, string(raw))
	}
	if again := d.plan(plan.Name); d.gr("mission").Generation != now.Generation || again.UID != stored.UID || again.Spec.Batches[1].Approval != topsv1.ApprovalAutomatic {
		t.Errorf("the same plan without steps: %+v", again)
	}
	d.results(path, plan.Name)

	d.succeeds(http.MethodPut, "/gum/v1/gr/mission", `{"all": true}`)
	d.fails(http.MethodPut, path, text, http.StatusConflict, "has ended, and keeps its result")
	if d.gr("mission").Annotations[topsv1.AnnotationUpgradePlan] != "" {
		t.Error("the plan is still followed")
	}
}

// results checks how a result is served, with one node that failed and one that is not done.
func (d *testServer) results(path, name string) {
	d.t.Helper()
	stored, now := d.plan(name), metav1.Now()
	stored.Status = topsv1.UpgradePlanStatus{ObservedGeneration: stored.Generation, Time: &now, Fail: 1, Undo: 1, Undone: []string{"mission-2"},
		Failed: []topsv1.FailedNode{{Node: "mission-1", Task: "mission-1_driver_verify", Message: "another version is loaded"}}}
	d.must(d.admin.Status().Update(context.Background(), stored))
	var fleet struct{ Items []planfile.Result }
	d.content(d.succeeds(http.MethodGet, path+"/results", ""), &fleet)
	if len(fleet.Items) != 1 || fleet.Items[0].Name != name || !fleet.Items[0].InForce || fleet.Items[0].Fail != 1 || fleet.Items[0].Undo != 1 || fleet.Items[0].Nodes != nil {
		d.t.Errorf("the plans of the gr are %+v", fleet.Items)
	}
	var one planfile.Result
	d.content(d.succeeds(http.MethodGet, path+"/results/"+name, ""), &one)
	var told []string
	for _, n := range one.Nodes {
		told = append(told, fmt.Sprintf("%s %s: %d %v %d", n.Node, n.Result, len(n.Tasks.Done), n.Tasks.Fail, len(n.Tasks.Undo)))
	}
	if diff := cmp.Diff([]string{"mission-1 fail: 5 [mission-1_driver_verify] 3", "mission-2 undo: 0 [] 9"}, told); diff != "" || one.Failed[0].Message != "another version is loaded" {
		d.t.Errorf("the result of %+v (-want +got):\n%s", one.Failed, diff)
	}
	d.create("bystander")
	for _, of := range []string{path + "/results/none", path + "/results/NONE", "/gum/v1/gr/bystander/plan/results/" + name} {
		d.fails(http.MethodGet, of, "", http.StatusNotFound, "upgradeplans.topsops.enflame.com")
	}
	d.content(d.succeeds(http.MethodGet, "/gum/v1/gr/bystander/plan/results", ""), &fleet)
	if len(fleet.Items) != 0 {
		d.t.Errorf("the plans of another gr are %+v", fleet.Items)
	}
}

// content decodes the content of a response.
func (d *testServer) content(got answer, into any) {
	d.t.Helper()
	raw, err := json.Marshal(got.Content)
	d.must(err)
	d.must(json.Unmarshal(raw, into))
}

// plan returns a stored plan, nil if there is none.
func (d *testServer) plan(name string) *topsv1.UpgradePlan {
	d.t.Helper()
	plan := &topsv1.UpgradePlan{}
	err := d.admin.Get(context.Background(), client.ObjectKey{Name: name}, plan)
	if client.IgnoreNotFound(err) == nil && err != nil {
		return nil
	}
	d.must(err)
	return plan
}

// overtaken is a client whose first patch of each plan comes after one of its status by another client.
type overtaken struct {
	client.Client
	other client.Client
	done  map[string]bool
}

func (o *overtaken) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if plan, is := object.(*topsv1.UpgradePlan); is && !o.done[plan.Name] {
		o.done[plan.Name] = true
		raw := client.RawPatch(types.MergePatchType, []byte(`{"status":{"undo":9}}`))
		if err := o.other.Status().Patch(ctx, &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: plan.Name}}, raw); err != nil {
			return err
		}
	}
	return o.Client.Patch(ctx, object, patch, options...)
}

func TestAPlanIsWrittenAgainWhenItsResultIsReportedMeanwhile(t *testing.T) {
	d := newTestServer(t, planning(t), func(o *Options) {
		o.Client = &overtaken{o.Client, apiserver.Shared(t).Client(t, apiserver.Admin), map[string]bool{}}
	})
	d.planned("overtaken")
	plan := d.planFile("overtaken", "2.0.0")
	d.succeeds(http.MethodPut, "/gum/v1/gr/overtaken/plan", d.textOf(plan))
	d.succeeds(http.MethodPut, "/gum/v1/gr/overtaken/plan?step=true", d.textOf(plan))
	if stored := d.plan(plan.Name); stored.Spec.Batches[1].Approval != topsv1.ApprovalManual || stored.Status.Undo != 9 {
		t.Errorf("it is %+v, with result %+v", stored.Spec.Batches, stored.Status)
	}
}

// What kubectl gcu upgrade --plan refuses is refused, in the same words, and nothing is stored.
func TestPlansThatAreRefused(t *testing.T) {
	d := newTestServer(t, planning(t))
	d.planned("refusing")
	const path = "/gum/v1/gr/refusing/plan"
	plan := d.planFile("refusing", "2.0.0")
	replaced := func(old, with string) string { return strings.Replace(d.textOf(plan), old, with, 1) }
	for name, tt := range map[string]struct {
		query, body string
		status      int
		says        string
	}{
		"no body":      {"", "", http.StatusBadRequest, "not YAML"},
		"no plan":      {"", `{"file": "gr.json"}`, http.StatusBadRequest, `unknown field "file"`},
		"another kind": {"", replaced("kind: UpgradePlan", "kind: UpgradePolicy"), http.StatusBadRequest, `not an UpgradePlan of topsops.enflame.com/v1`},
		"an envelope":  {"", `{"operation": "Plan", "result": "Success"}`, http.StatusBadRequest, "unknown field"},
		"an alias":     {"", "x: &x [a]\ny: *x\n", http.StatusBadRequest, "anchors or aliases"},
		"too large":    {"", strings.Repeat("#", 1<<20+1), http.StatusRequestEntityTooLarge, "larger than 1048576 bytes"},
		"a rule": {"", d.edited(plan, func(s *topsv1.UpgradePlanSpec) { s.Jobs[0].Stages = s.Jobs[0].Stages[4:] }),
			http.StatusBadRequest, "node_evict may not be left out: the node must be emptied before"},
		"another gr":                         {"", replaced("gcuResource: refusing", "gcuResource: other"), http.StatusBadRequest, "the plan is for gr other, not refusing"},
		"a misspelled spec":                  {"", strings.Replace(d.textOf(plan), "driver:\n", "drivers:\n", 1), http.StatusBadRequest, `spec.wanted: it is refused: unknown field "drivers"`},
		"a misspelled dry run":               {"?dryrun=true", d.textOf(plan), http.StatusBadRequest, "the parameters are step=true and dryRun=true"},
		"a step that is none":                {"?step=perhaps", d.textOf(plan), http.StatusBadRequest, "step \"perhaps\" is neither true nor false"},
		"a spec that the API server refuses": {"", replaced("version: 2.0.0", "version: a b"), http.StatusUnprocessableEntity, "spec.driver.version"},
		"another spec":                       {"", replaced("version: 2.0.0", "version: 2.0.1"), http.StatusConflict, "write another plan"},
		"a changed gr": {"", d.edited(plan, func(s *topsv1.UpgradePlanSpec) { s.From = "refusing-0" }),
			http.StatusConflict, "gr refusing was changed since the plan was written"},
		"a node that is gone": {"", d.edited(plan, func(s *topsv1.UpgradePlanSpec) { s.Batches[0].Jobs[0].Nodes[0] = "refusing-9" }),
			http.StatusConflict, "node refusing-9 does not exist, or no longer runs components of the gr"},
	} {
		t.Run(name, func(t *testing.T) { d.fails(http.MethodPut, path+tt.query, tt.body, tt.status, tt.says) })
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{http.MethodGet, path + "/file", "", http.StatusConflict, "there is nothing to plan: no node of gr refusing is upgraded"},
		{http.MethodGet, path + "/file?format=xml", "", http.StatusBadRequest, "neither json nor yaml"},
		{http.MethodGet, path + "/file?approved=true", "", http.StatusBadRequest, "file, nodes, components, all and format"},
		{http.MethodPost, path + "/file?nodes=refusing-1", `{"spec": {}}`, http.StatusBadRequest, "of a POST only format"},
		{http.MethodPost, path + "/file", `{"file": "gr.json", "mode": "recreate"}`, http.StatusBadRequest, "no plan"},
		{http.MethodPost, path + "/file", "", http.StatusBadRequest, "has to be JSON"},
		{http.MethodGet, "/gum/v1/gr/absent/plan/file", "", http.StatusNotFound, `"absent" not found`},
		{http.MethodGet, "/gum/v1/gr/absent/plan/results", "", http.StatusNotFound, `"absent" not found`},
		{http.MethodGet, "/gum/v1/gr/absent/plan/results/x", "", http.StatusNotFound, `"absent" not found`},
		{http.MethodPut, path + "/results", "{}", http.StatusMethodNotAllowed, "use GET, HEAD"},
	} {
		d.fails(tt.method, tt.path, tt.body, tt.status, tt.says)
	}
	if now := d.gr("refusing"); now.Generation != 1 || now.Annotations[topsv1.AnnotationUpgradePlan] != "" || d.plan(plan.Name) != nil {
		t.Errorf("a refused plan is stored: %v, %+v", now.Annotations, d.plan(plan.Name))
	}
	newTestServer(t).fails(http.MethodPut, path, d.textOf(plan), http.StatusNotImplemented, "does not plan")
}

// judging is a planner that says the same about every plan.
type judging struct {
	planner
	wrong string
}

func (j judging) CheckPlan(context.Context, *planfile.Plan, *topsv1.GcuResource, *topsv1.GcuResource) (string, error) {
	return j.wrong, nil
}

// fits gives an API a planner for which every plan fits the cluster.
func fits(o *Options) { o.Planner = judging{} }

// smallPlan returns a plan that makes a driver of version 2 of a gr, on one node.
func smallPlan(gr string) string {
	return fmt.Sprintf(`{"apiVersion": "topsops.enflame.com/v1", "kind": "UpgradePlan", "metadata": {"name": "plan-of-%[1]s"}, "spec": {"gcuResource": %[1]q, "revision": "any",
		"wanted": {"driver": {"version": "2"}}, "jobs": [{"name": "j", "stages": [["nfd_replace"]]}], "batches": [{"name": "b", "jobs": [{"job": "j", "nodes": ["n"]}]}]}}`, gr)
}

// withoutPlans allows everything but one verb on UpgradePlans.
type withoutPlans struct {
	everything
	verb string
}

func (w withoutPlans) Authorize(_ context.Context, _ authenticationv1.UserInfo, right authorizationv1.ResourceAttributes) error {
	if right.Resource == "upgradeplans" && right.Verb == w.verb {
		return request.Refuse(http.StatusForbidden, "cannot %s %s", right.Verb, right.Resource)
	}
	return nil
}

// The right to upgrade a gr is not the right to plan.
func TestWhoMayHaveAPlanRun(t *testing.T) {
	stored := &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "plan-of-gr", ResourceVersion: "7"}, Spec: topsv1.UpgradePlanSpec{GcuResource: "gr"}}
	authorized := func(verb string) func(*Options) { return func(o *Options) { o.Access = withoutPlans{verb: verb} } }
	for name, tt := range map[string]struct {
		query  string
		change func(*Options)
		stored *topsv1.UpgradePlan
		status int
		says   string
		writes []string
	}{
		"who may do all":                       {"", authorized(""), nil, http.StatusOK, "", []string{"try to patch gr", "create plan-of-gr", "patch gr"}},
		"all, for a plan that is there":        {"", authorized("create"), stored, http.StatusOK, "", []string{"try to patch gr", "patch plan-of-gr", "patch gr"}},
		"who may not create plans":             {"", authorized("create"), nil, http.StatusForbidden, "cannot create upgradeplans", []string{"try to patch gr"}},
		"who may not create plans, in a trial": {"?dryRun=true", authorized("create"), nil, http.StatusForbidden, "cannot create upgradeplans", []string{"try to patch gr"}},
		"who may not change plans":             {"", authorized("update"), stored, http.StatusForbidden, "cannot update upgradeplans", []string{"try to patch gr"}},
		"a trial":                              {"?dryRun=true", authorized(""), nil, http.StatusOK, "", []string{"try to patch gr", "try to create plan-of-gr", "try to patch gr"}},
		"anybody, without authentication": {"", func(o *Options) { o.Anonymous = "anyone" }, nil, http.StatusForbidden,
			"without authentication this API runs no plans", nil},
		"a plan that does not fit": {"", func(o *Options) {
			o.Planner = judging{wrong: "n_nfd_replace: the component no longer runs on the node"}
		}, nil,
			http.StatusConflict, "n_nfd_replace: the component no longer runs", []string{"try to patch gr"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &fakeCluster{plan: tt.stored}
			r := httptest.NewRequest(http.MethodPut, "/gum/v1/gr/gr/plan"+tt.query, strings.NewReader(smallPlan("gr")))
			r.Header.Set("Authorization", "Bearer x")
			w, _ := answerOf(s, r, fits, tt.change)
			var writes []string
			for _, write := range s.asked {
				what, _, _ := strings.Cut(write, " {")
				writes = append(writes, what)
			}
			if e := envelopeIn(t, w); w.Code != tt.status || !strings.Contains(e.Error, tt.says) || !slices.Equal(writes, tt.writes) {
				t.Errorf("%d %s after %v, want %d, %q after %v", w.Code, w.Body, writes, tt.status, tt.says, tt.writes)
			}
		})
	}
}

// refusing is a planner for which every plan fits the cluster, and no other upgrade does.
type refusing struct{ judging }

func (refusing) Refused(context.Context, *topsv1.GcuResource, *topsv1.GcuResource) (string, error) {
	return "not allowed on the other nodes", nil
}

// A plan was compared with its own nodes. The versions that it leaves out refuse it neither when it is only tried, nor when the
// cache does not have it yet.
//
// Contract 97.
func TestAPlanIsCheckedForItsOwnNodesOnly(t *testing.T) {
	for _, query := range []string{"", "?dryRun=true"} {
		s := &fakeCluster{}
		w, _ := answerOf(s, httptest.NewRequest(http.MethodPut, "/gum/v1/gr/gr/plan"+query, strings.NewReader(smallPlan("gr"))), func(o *Options) { o.Planner = refusing{} })
		if w.Code != http.StatusOK {
			t.Errorf("%q: %d %s after %v", query, w.Code, w.Body, s.asked)
		}
	}
}

func TestUnderOTAAPlanIsNotRunStepByStep(t *testing.T) {
	s := &fakeCluster{annotations: map[string]string{topsv1.AnnotationUpdateStrategy: "OTA"}}
	w, _ := answerOf(s, httptest.NewRequest(http.MethodPut, "/gum/v1/gr/gr/plan?step=true", strings.NewReader(smallPlan("gr"))), fits)
	if e := envelopeIn(t, w); w.Code != http.StatusConflict || !strings.Contains(e.Error, "gr gr has strategy OTA") || s.stored != 0 {
		t.Errorf("%d %s after %v", w.Code, w.Body, s.asked)
	}
}

// ending is a planner that another client overtakes: it ends the plan, as PUT {"all": true} does, while the next one is checked.
type ending struct {
	judging
	of *fakeCluster
}

func (e ending) CheckPlan(context.Context, *planfile.Plan, *topsv1.GcuResource, *topsv1.GcuResource) (string, error) {
	e.of.annotations = nil
	return "", nil
}

func TestAPlanThatWasEndedWhileItWasCheckedIsNotReplaced(t *testing.T) {
	s := &fakeCluster{annotations: map[string]string{topsv1.AnnotationUpgradePlan: "plan-of-gr"},
		plan: &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "plan-of-gr", ResourceVersion: "7"}, Spec: topsv1.UpgradePlanSpec{GcuResource: "gr"}}}
	r := httptest.NewRequest(http.MethodPut, "/gum/v1/gr/gr/plan", strings.NewReader(smallPlan("gr")))
	w, _ := answerOf(s, r, func(o *Options) { o.Planner = ending{of: s} })
	if e := envelopeIn(t, w); w.Code != http.StatusConflict || !strings.Contains(e.Error, "gr gr was changed since this plan was checked") || s.stored != 0 {
		t.Errorf("%d %s after %v", w.Code, w.Body, s.asked)
	}
}

// beside is a client that another one overtakes before its first patch of a gr.
type beside struct {
	client.Client
	first func(context.Context, client.Client) error
}

func (b *beside) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	if _, is := object.(*topsv1.GcuResource); is && b.first != nil && len((&client.PatchOptions{}).ApplyOptions(options).DryRun) == 0 {
		first := b.first
		if b.first = nil; first(ctx, b.Client) != nil {
			return errors.New("the other client failed")
		}
	}
	return b.Client.Patch(ctx, object, patch, options...)
}

// Two clients store different plans with the same name at the same time. Each is told which plan the gr follows.
func TestTwoPlansOfOneNameAtOnce(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := topsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for says, first := range map[string]func(context.Context, client.Client) error{
		"another client changed that meanwhile": func(ctx context.Context, c client.Client) error {
			plan := &topsv1.UpgradePlan{}
			err := c.Get(ctx, client.ObjectKey{Name: "plan-of-gr"}, plan)
			plan.Generation++ // as an API server does
			return errors.Join(err, c.Update(ctx, plan))
		},
		"which is your plan: this request succeeded, or one of another client did": func(ctx context.Context, c client.Client) error {
			gr := &topsv1.GcuResource{}
			err := c.Get(ctx, client.ObjectKey{Name: "gr"}, gr)
			gr.Annotations, gr.Spec.Driver.Version = map[string]string{topsv1.AnnotationUpgradePlan: "plan-of-gr"}, "2"
			return errors.Join(err, c.Update(ctx, gr))
		},
	} {
		c := &beside{first: first, Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(&topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gr", UID: "uid-1"},
			Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "1"}}}).Build()}
		api, w := New(Options{Client: c, Namespace: namespace, Clock: clock.RealClock{}, Log: logr.Discard(), Planner: judging{}}), httptest.NewRecorder()
		api.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/gum/v1/gr/gr/plan", strings.NewReader(smallPlan("gr"))))
		if got := envelopeIn(t, w); w.Code != http.StatusConflict || !strings.Contains(got.Error, says) {
			t.Errorf("%d %+v, want %q", w.Code, got, says)
		}
	}
}

// A webhook may deny with the code of a conflict: that is no change of the gr by someone else.
func TestADenialIsNotTriedAgainWhateverItsCode(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := topsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	const says = `admission webhook "no.example.com" denied the request: not on Fridays`
	tries := 0
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(&topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gr", UID: "uid-1"},
		Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "1"}}}).Build(), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if _, is := object.(*topsv1.GcuResource); !is || len((&client.PatchOptions{}).ApplyOptions(options).DryRun) > 0 {
				return c.Patch(ctx, object, patch, options...)
			}
			tries++
			return &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: says}}
		}})
	api, w := New(Options{Client: c, Namespace: namespace, Clock: clock.RealClock{}, Log: logr.Discard(), Planner: judging{}}), httptest.NewRecorder()
	api.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/gum/v1/gr/gr/plan", strings.NewReader(smallPlan("gr"))))
	if got := envelopeIn(t, w); tries != 1 || w.Code != http.StatusUnprocessableEntity || !strings.Contains(got.Error, says) {
		t.Errorf("after %d tries: %d %+v", tries, w.Code, got)
	}
}

// The manager dies at any write of a plan: the gr follows all of it or nothing, and the same request completes it.
//
// Contract 96.
func TestAPlanThatWasCutShortIsRunWhenSentAgain(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := topsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for last := 0; last <= 2; last++ {
		for _, sent := range []bool{false, true}[:min(last+1, 2)] { // once if it never dies
			t.Run(fmt.Sprintf("dead at write %d, which got through: %t", last, sent), func(t *testing.T) {
				stored := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gr", UID: "uid-1"},
					Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{Version: "1"}}}).Build()
				put := func(c client.Client) envelope {
					api, w := New(Options{Client: c, Namespace: namespace, Clock: clock.RealClock{}, Log: logr.Discard(), Planner: judging{}}), httptest.NewRecorder()
					api.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/gum/v1/gr/gr/plan", strings.NewReader(smallPlan("gr"))))
					return envelopeIn(t, w)
				}
				follows := func() bool {
					gr := &topsv1.GcuResource{}
					if err := stored.Get(t.Context(), client.ObjectKey{Name: "gr"}, gr); err != nil {
						t.Fatal(err)
					}
					is := gr.Annotations[topsv1.AnnotationUpgradePlan] == "plan-of-gr"
					if (gr.Spec.Driver.Version == "2") != is {
						t.Errorf("half of it is done: %s, %v", gr.Spec.Driver.Version, gr.Annotations)
					}
					return is
				}
				m := &mortal{Client: stored, last: last, sent: sent}
				got := put(m)
				if m.isDead() != (last > 0) || last == 0 && m.writes != 2 || (got.Result == ResultSuccess) != (last == 0) {
					t.Fatalf("dead: %t, after %d writes: %+v", m.isDead(), m.writes, got)
				}
				if is, want := follows(), last == 0 || last == 2 && sent; is != want {
					t.Errorf("the gr follows the plan: %t, want %t", is, want)
				}
				if again := put(stored); again.Result != ResultSuccess || !follows() {
					t.Errorf("sent again: %+v", again)
				}
				plan := &topsv1.UpgradePlan{}
				if err := stored.Get(t.Context(), client.ObjectKey{Name: "plan-of-gr"}, plan); err != nil || plan.OwnerReferences[0].UID != "uid-1" || len(plan.Spec.Batches) != 1 {
					t.Errorf("the plan is %+v, %v", plan, err)
				}
			})
		}
	}
}
