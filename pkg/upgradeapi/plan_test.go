package upgradeapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/preview/inquiry"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// planner plans like the manager.
type planner struct{ inquiry.Predictor }

func (p planner) Plan(ctx context.Context, present, wanted *topsv1.GcuResource, approved bool) (any, string, error) {
	answer, err := p.Ask(ctx, preview.Question{Present: present, Wanted: wanted, Approved: approved})
	if err != nil {
		return nil, "", err
	}
	return answer, answer.Refused(), nil
}

func (p planner) Refused(context.Context, *topsv1.GcuResource, *topsv1.GcuResource) (string, error) {
	return "", nil
}

// planning gives an API a planner with the permissions of the operator.
func planning(t *testing.T) func(*Options) {
	return func(o *Options) {
		c := apiserver.Shared(t).Client(t, apiserver.Operator)
		o.Planner = planner{inquiry.Predictor{Reader: c, Live: c, Namespace: namespace, Clock: time.Now}}
	}
}

// foretold is a planner with a fixed result.
type foretold struct {
	planner
	says *preview.Preview
}

func (f foretold) Plan(context.Context, *topsv1.GcuResource, *topsv1.GcuResource, bool) (any, string, error) {
	return f.says, f.says.Refused(), nil
}

func (f foretold) Refused(context.Context, *topsv1.GcuResource, *topsv1.GcuResource) (string, error) {
	return f.says.Refused(), nil
}

func (f foretold) CheckPlan(context.Context, *planfile.Plan, *topsv1.GcuResource, *topsv1.GcuResource) (string, error) {
	return "", nil
}

// TestAnUpgradeWaitsItsTurn: what a PUT checks costs as much as a plan, but plans, which anyone who may read can ask
// for, do not delay it; only a few of them wait.
func TestAnUpgradeWaitsItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gr := &topsv1.GcuResource{}
		r := newResolver(&cluster{}, "", false, foretold{says: &preview.Preview{}})
		p := &planFiles{plans: &plans{r}, upgrades: &upgrades{resolver: r}}
		ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
		defer cancel()
		release, err := r.turn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var served atomic.Int64
		for range maxWaitingPlans {
			go func() {
				if release, err := r.turn(ctx); err == nil {
					served.Add(1)
					release()
				}
			}()
		}
		synctest.Wait()
		begun := time.Now()
		for range 2 { // nothing is left behind
			if _, err := r.turn(ctx); !refusedWith(err, http.StatusTooManyRequests) {
				t.Errorf("one more plan: %v", err)
			}
			if err := p.upgrades.refuse(ctx, gr, &request.Desired{}); err != nil {
				t.Errorf("an upgrade beside plans: %v", err)
			}
			if err := p.check(ctx, call{}, nil, gr, &request.Desired{}); err != nil {
				t.Errorf("an upgrade by a plan file beside plans: %v", err)
			}
		}
		if took := time.Since(begun); took > 0 {
			t.Errorf("answered after %s", took)
		}
		release()
		synctest.Wait()
		if n := served.Load(); n != maxWaitingPlans {
			t.Errorf("%d plans had their turn, want %d", n, maxWaitingPlans)
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		if err := r.checking.Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if err := p.upgrades.refuse(gone, gr, &request.Desired{}); !apierrors.IsTimeout(err) {
			t.Errorf("checked beside another upgrade: %v", err)
		}
		if err := p.check(gone, call{}, nil, gr, &request.Desired{}); !apierrors.IsTimeout(err) {
			t.Errorf("a plan file checked beside another upgrade: %v", err)
		}
	})
}

// refusedWith reports whether an error is a refusal with a status.
func refusedWith(err error, status int) bool {
	refusal, ok := errors.AsType[*request.Refusal](err)
	return ok && refusal.Status == status
}

func TestVersionsThatAreNotAllowedAreRefused(t *testing.T) {
	const why = "driver 1.4.0 > 1.6.0: no step allows it"
	d := newTestServer(t, func(o *Options) {
		o.Planner = foretold{says: &preview.Preview{Rollout: preview.Rollout{Left: []preview.LeftNode{{Name: "a", Reason: "VersionNotAllowed", Message: why}}}}}
	})
	d.create("jumping")
	for _, method := range []string{http.MethodGet, http.MethodPut} {
		t.Run("contract 97: "+method, func(t *testing.T) {
			path, body := "/gum/v1/gr/jumping/plan", ""
			if method == http.MethodPut {
				path, body = "/gum/v1/gr/jumping", `{"spec": {"driver": {"version": "1.6.0"}}}`
			}
			d.fails(method, path, body, http.StatusConflict, why)
		})
	}
	if got := d.gr("jumping"); got.Spec.Driver != nil && got.Spec.Driver.Version == "1.6.0" {
		t.Error("the spec was written")
	}
}

// Every field of a plan is documented, at its place in the document.
func TestAPlanIsAsDocumented(t *testing.T) {
	task := upgradeplan.Task{Host: "a", Target: "driver", Action: "replace"}
	d := newTestServer(t, func(o *Options) {
		o.Planner = foretold{says: &preview.Preview{GcuResource: "told", Only: "nodes=a",
			Components: []preview.Component{{Name: "driver", Change: preview.Upgrade, Nodes: 1, LeftOut: true, Images: []preview.Image{{From: "x:1", To: "x:2"}}}},
			Rollout: preview.Rollout{Blocked: "no", MaxUnavailable: 1, Total: 3, InFlight: []string{"c"}, Seconds: 60,
				Nodes: []preview.Node{{Name: "a", Wave: "w", AfterSeconds: 1, Disruption: upgradeplan.EvictAccelerator,
					Replaces: []string{"driver"}, Upgrades: []string{"driver"}, Evicts: []string{"default/x"}, BlockedBy: "a budget"}},
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
	d = newTestServer(t)
	d.fails(http.MethodGet, "/gum/v1/gr/told/plan", "", http.StatusNotImplemented, "does not plan")
}

func TestPlan(t *testing.T) {
	d := newTestServer(t, planning(t))
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
		{http.MethodGet, path + "?node=rack-1", "", http.StatusBadRequest, "is not valid"},
		{http.MethodPost, path + "?file=next.json", `{"spec": {}}`, http.StatusBadRequest, "is not valid"},
		{http.MethodPost, path, "", http.StatusBadRequest, "has to be JSON"},
		{http.MethodPost, path, `{"file": "next.json", "mode": "recreate"}`, http.StatusBadRequest, "no plan"},
		{http.MethodPost, path, `{"spec": {"driver": {"version": "a b"}}}`, http.StatusUnprocessableEntity, "spec.driver.version"},
		{http.MethodGet, "/gum/v1/gr/absent/plan", "", http.StatusNotFound, `"absent" not found`},
		{http.MethodDelete, path, "", http.StatusMethodNotAllowed, "use GET, HEAD, POST, PUT"},
	} {
		d.fails(tt.method, tt.path, tt.body, tt.status, tt.says)
	}
	if gr := d.gr("planned"); gr.Generation != 1 || gr.Annotations[topsv1.AnnotationUpgradeOnly] != "" {
		t.Errorf("a plan changed the gr: %+v", gr)
	}
}
