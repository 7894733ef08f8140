package upgradeapi

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/preview/inquiry"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// planner plans as the manager does.
type planner struct{ inquiry.Asker }

func (p planner) Plan(ctx context.Context, present, wanted *topsv1.GcuResource, approved bool) (any, error) {
	return p.Ask(ctx, preview.Question{Present: present, Wanted: wanted, Approved: approved})
}

// planning gives an API a planner with the rights of the operator.
func planning(t *testing.T) func(*Options) {
	return func(o *Options) {
		c := apiserver.Shared(t).Client(t, apiserver.Operator)
		o.Planner = planner{inquiry.Asker{Reader: c, Live: c, Namespace: namespace, Clock: time.Now}}
	}
}

// foretold is a planner that always says the same.
type foretold struct {
	planner
	says *preview.Preview
}

func (f foretold) Plan(context.Context, *topsv1.GcuResource, *topsv1.GcuResource, bool) (any, error) {
	return f.says, nil
}

// Every field that a plan may have is documented, and is where the document says.
func TestAPlanIsAsDocumented(t *testing.T) {
	task := upgradeplan.Task{Host: "a", Target: "driver", Action: "replace"}
	d := newDesk(t, func(o *Options) {
		o.Planner = foretold{says: &preview.Preview{GcuResource: "told", Only: "nodes=a",
			Components: []preview.Component{{Name: "driver", Change: preview.Upgrade, Nodes: 1, LeftOut: true, Images: []preview.Image{{From: "x:1", To: "x:2"}}}},
			Rollout: preview.Rollout{Blocked: "no", Limit: 1, Total: 3, InFlight: []string{"c"}, Seconds: 60,
				Nodes: []preview.Node{{Name: "a", Wave: "w", AfterSeconds: 1, Disruption: upgradeplan.EvictAccelerator,
					Replaces: []string{"driver"}, Upgrades: []string{"driver"}, Evicts: []string{"default/x"}, Holds: "a budget"}},
				Left: []preview.LeftNode{{Name: "b", Reason: "NodeOffline", Message: "it is offline"}},
				Plan: upgradeplan.Mission{{{{task}}}}},
		}}
	})
	d.create("told")
	got := d.succeeds(http.MethodGet, "/gum/v1/gr/told/plan", "")
	for _, text := range []string{`"a_driver_replace"`, `"maxUnavailable": 1`, `"holds": "a budget"`, `"leftOut": true`, `"inFlight": [`} {
		if !strings.Contains(got.body, text) {
			t.Errorf("the answer has no %s: %s", text, got.body)
		}
	}
	d = newDesk(t)
	d.fails(http.MethodGet, "/gum/v1/gr/told/plan", "", http.StatusNotImplemented, "does not plan")
}

func TestPlan(t *testing.T) {
	d := newDesk(t, planning(t))
	d.create("planned", strategy("AdvancedRollingUpdate"))
	d.file("next.json", blueprint("planned", "2.0.0"))
	d.file("limited.json", strings.Replace(blueprint("planned", "2.0.0"), `{"name": "planned"}`,
		`{"name": "planned", "annotations": {"topsops.enflame.com/upgrade-only": "nodes=rack-1"}}`, 1))
	d.node("rack-1")
	const path = "/gum/v1/gr/planned/plan"
	for _, tt := range []struct{ method, path, body, only, component string }{
		{http.MethodGet, path, "", "", "driver Deploy"},
		{http.MethodGet, path + "/", "", "", "driver Deploy"},
		{http.MethodGet, path + "?file=next.json&approved=true", "", "", "driver Deploy"},
		{http.MethodGet, path + "?file=next.json&nodes=rack-1&components=driver", "", "nodes=rack-1;components=driver", "driver Deploy"},
		{http.MethodGet, path + "?file=limited.json", "", "nodes=rack-1", "driver Deploy"},
		{http.MethodGet, path + "?file=limited.json&all=true", "", "", "driver Deploy"},
		{http.MethodGet, path + "?components=driver", "", "components=driver", "driver Deploy"},
		{http.MethodPost, path + "?approved=true", `{"spec": {"gfd": {}}}`, "", "gfd Deploy"},
		{http.MethodPost, path, `{"spec": {"gfd": {}}, "nodes": ["rack-1"], "components": ["gfd"]}`, "nodes=rack-1;components=gfd", "gfd Deploy"},
		{http.MethodPost, path, `{"all": true}`, "", "driver Deploy"},
	} {
		got := d.succeeds(tt.method, tt.path, tt.body)
		content, _ := got.Content.(map[string]any)
		only, _ := content["only"].(string)
		if got.Operation != OperationPlan || content["gcuResource"] != "planned" || only != tt.only || !strings.Contains(got.body, `"name": "`+strings.Fields(tt.component)[0]+`"`) {
			t.Errorf("%s %s %s: %s", tt.method, tt.path, tt.body, got.body)
		}
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{http.MethodGet, path + "?file=none.json", "", http.StatusNotFound, "not found"},
		{http.MethodGet, path + "?file=..%2Fx", "", http.StatusBadRequest, "plain name"},
		{http.MethodGet, path + "?nodes=rack-9", "", http.StatusBadRequest, "there is no node rack-9"},
		{http.MethodGet, path + "?nodes=", "", http.StatusBadRequest, "empty list"},
		{http.MethodGet, path + "?components=gfd", "", http.StatusBadRequest, "no component"},
		{http.MethodGet, path + "?all=true&nodes=rack-1", "", http.StatusBadRequest, "exclude each other"},
		{http.MethodGet, path + "?approved=perhaps", "", http.StatusBadRequest, "neither true nor false"},
		{http.MethodGet, path + "?node=rack-1", "", http.StatusBadRequest, "not understood"},
		{http.MethodPost, path + "?file=next.json", `{"spec": {}}`, http.StatusBadRequest, "not understood"},
		{http.MethodPost, path, "", http.StatusBadRequest, "has to be JSON"},
		{http.MethodPost, path, `{"file": "next.json", "mode": "recreate"}`, http.StatusBadRequest, "no plan"},
		{http.MethodPost, path, `{"spec": {"driver": {"version": "a b"}}}`, http.StatusUnprocessableEntity, "spec.driver.version"},
		{http.MethodGet, "/gum/v1/gr/absent/plan", "", http.StatusNotFound, `"absent" not found`},
		{http.MethodPut, path, `{"file": "next.json"}`, http.StatusMethodNotAllowed, "use GET, HEAD, POST"},
	} {
		d.fails(tt.method, tt.path, tt.body, tt.status, tt.says)
	}
	if gr := d.gr("planned"); gr.Generation != 1 || gr.Annotations[topsv1.AnnotationUpgradeOnly] != "" {
		t.Errorf("a plan changed the gr: %+v", gr)
	}
}

func TestAnUpgradeSaysItselfWhatItIsLimitedTo(t *testing.T) {
	d := newDesk(t, planning(t))
	d.create("limited", strategy("OTA"))
	d.file("next.json", blueprint("limited", "2.0.0"))
	d.file("own.json", strings.Replace(blueprint("limited", "3.0.0"), `{"name": "limited"}`,
		`{"name": "limited", "annotations": {"topsops.enflame.com/upgrade-only": "components=driver"}}`, 1))
	d.file("bad.json", strings.Replace(blueprint("limited", "3.0.0"), `{"name": "limited"}`,
		`{"name": "limited", "annotations": {"topsops.enflame.com/upgrade-only": "racks=1"}}`, 1))
	d.node("rack-2")
	const path = "/gum/v1/gr/limited"
	for _, tt := range []struct{ name, body, only, version string }{
		{"by the request", `{"file": "next.json", "nodes": ["rack-2", "rack-2"]}`, "nodes=rack-2", "2.0.0"},
		{"to something else, without another spec", `{"components": ["driver"]}`, "components=driver", "2.0.0"},
		{"to nothing, without another spec", `{"all": true}`, "", "2.0.0"},
		{"by the blueprint", `{"file": "own.json"}`, "components=driver", "3.0.0"},
		{"to nothing, by a blueprint that says nothing", `{"file": "next.json"}`, "", "2.0.0"},
		{"by the request rather than the blueprint", `{"file": "own.json", "nodes": ["rack-2"], "components": ["driver"]}`, "nodes=rack-2;components=driver", "3.0.0"},
		{"to nothing rather than by the blueprint", `{"file": "own.json", "all": true}`, "", "3.0.0"},
		{"by a request with a spec", `{"spec": {"driver": {"version": "4.0.0"}}, "nodes": ["rack-2"]}`, "nodes=rack-2", "4.0.0"},
	} {
		d.succeeds(http.MethodPut, path, tt.body)
		gr := d.gr("limited")
		if got := gr.Annotations[topsv1.AnnotationUpgradeOnly]; got != tt.only || gr.Spec.Driver.Version != tt.version || gr.Annotations[topsv1.AnnotationUpdateStrategy] != "OTA" {
			t.Errorf("%s: limited to %q, version %s, annotations %v; want %q and %s", tt.name, got, gr.Spec.Driver.Version, gr.Annotations, tt.only, tt.version)
		}
	}
	before := d.gr("limited").ResourceVersion
	for body, says := range map[string]string{
		`{}`:                                 "has to name a blueprint",
		`{"nodes": []}`:                      "empty list",
		`{"components": []}`:                 "empty list",
		`{"nodes": ["rack-9"]}`:              "there is no node rack-9",
		`{"nodes": ["a;components=b"]}`:      "is not the name of a node",
		`{"components": ["gfd"]}`:            `no component "gfd"`,
		`{"file": "bad.json"}`:               "upgrade-only",
		`{"all": true, "nodes": ["rack-2"]}`: "exclude each other",
		`{"file": "next.json", "mode": "recreate", "nodes": ["rack-2"]}`: "cannot be limited",
		`{"nodes": "rack-2"}`: "has to be JSON",
	} {
		d.fails(http.MethodPut, path, body, http.StatusBadRequest, says)
	}
	if got := d.send(http.MethodPut, path+"?dryRun=true", `{"all": true}`); got.status != http.StatusOK || got.object(t).GetAnnotations()[topsv1.AnnotationUpgradeOnly] != "" {
		t.Errorf("a dry run: %s", got.body)
	}
	if after := d.gr("limited").ResourceVersion; after != before {
		t.Error("a refused request or a dry run changed the gr")
	}
	if log := d.logged(); !strings.Contains(log, "rack-2") {
		t.Errorf("the log does not say to what:\n%s", log)
	}
}

// strategy gives a gr an upgrade strategy.
func strategy(s string) func(*topsv1.GcuResource) {
	return func(gr *topsv1.GcuResource) { gr.Annotations = map[string]string{topsv1.AnnotationUpdateStrategy: s} }
}

// node makes a node that goes with the test.
func (d *desk) node(name string) {
	d.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	d.must(d.admin.Create(d.t.Context(), node))
	d.t.Cleanup(func() { d.must(d.admin.Delete(context.Background(), node)) })
}
