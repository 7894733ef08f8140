package upgradeapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Planner tells what upgrades are going to do. The manager has one.
type Planner interface {
	// Plan returns what is done when a gr gets the wanted form, as it is shown; approved:
	// every wave counts as approved.
	Plan(ctx context.Context, present, wanted *topsv1.GcuResource, approved bool) (any, error)
	// CheckCut says what is wrong with what an upgrade of a gr is to be limited to, "" for
	// nothing, and returns it as it is written.
	CheckCut(ctx context.Context, gr *topsv1.GcuResource, cut *daemonset.Cut) (checked *daemonset.Cut, wrong string, err error)
}

// form makes of a gr what it is to be.
type form func(*topsv1.GcuResource) *topsv1.GcuResource

// planning is what the path of a plan answers: GET with a query, POST with the body that
// a PUT would have.
func (a *API) planning() map[string]endpoint {
	get := endpoint{operation: OperationPlan, verb: "get", reads: true, do: func(ctx context.Context, c call) (any, error) {
		body, approved, err := planIn(c.query)
		if err != nil {
			return nil, err
		}
		return a.plan(ctx, c, body, approved)
	}}
	post := get
	post.do = func(ctx context.Context, c call) (any, error) {
		approved, err := approvedIn(c.query)
		if err != nil {
			return nil, err
		}
		body, err := upgradeIn(c.body)
		if err != nil {
			return nil, err
		}
		return a.plan(ctx, c, body, approved)
	}
	return map[string]endpoint{http.MethodGet: get, http.MethodHead: get, http.MethodPost: post}
}

// planIn reads the query of a GET: what a PUT would have in its body, or nothing for
// what is still to be done.
func planIn(query url.Values) (body upgradeBody, approved bool, err error) {
	body.Mode = modeInPlace
	rest := url.Values{}
	for key, values := range query {
		switch {
		case key == "file" && len(values) == 1 && values[0] != "":
			body.File = values[0]
		case key == "nodes":
			body.Nodes = listed(values)
		case key == "components":
			body.Components = listed(values)
		case key == "all" && len(values) == 1:
			if body.All, err = strconv.ParseBool(values[0]); err != nil {
				return body, false, badRequest("all %.100q is neither true nor false", values[0])
			}
		default:
			rest[key] = values
		}
	}
	if approved, err = approvedIn(rest); err != nil {
		return body, false, err
	}
	return body, approved, body.check()
}

// listed are the names in a query: repeated, or separated by commas.
func listed(values []string) []string {
	names := []string{}
	for _, v := range values {
		names = append(names, strings.Split(v, ",")...)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

func approvedIn(query url.Values) (bool, error) {
	for key, values := range query {
		if key != "approved" || len(values) != 1 {
			return false, badRequest("query %.100q is not understood: there are file, nodes, components, all and approved, of a POST approved only", query.Encode())
		}
	}
	if !query.Has("approved") {
		return false, nil
	}
	approved, err := strconv.ParseBool(query.Get("approved"))
	if err != nil {
		return false, badRequest("approved %.100q is neither true nor false", query.Get("approved"))
	}
	return approved, nil
}

// plan tells what an upgrade would do; without anything in the body what is still to be
// done. It changes nothing.
func (a *API) plan(ctx context.Context, c call, body upgradeBody, approved bool) (any, error) {
	if a.Planner == nil {
		return nil, refuse(http.StatusNotImplemented, "this manager does not plan")
	}
	if body.Mode == modeRecreate {
		return nil, badRequest("mode %s deletes everything and deploys it again: there is no plan for it", modeRecreate)
	}
	blueprint, err := a.blueprint(c, body)
	if err != nil {
		return nil, err
	}
	gr, err := a.present(ctx, c)
	if err != nil {
		return nil, err
	}
	form, err := a.formOf(ctx, gr, blueprint, body)
	if err != nil {
		return nil, err
	}
	wanted := gr
	if blueprint != nil || body.said() {
		wanted = form(gr)
		options := []client.PatchOption{client.DryRunAll, client.FieldOwner(fieldOwner), client.FieldValidation("Strict")}
		if err := a.Client.Patch(ctx, wanted, client.MergeFrom(gr), options...); err != nil {
			return nil, err
		}
	}
	select { // one at a time: of a large fleet it is work
	case a.plans <- struct{}{}:
		defer func() { <-a.plans }()
	case <-ctx.Done():
		return nil, apierrors.NewTimeoutError("other plans are being made: send the request again", 1)
	}
	return a.Planner.Plan(ctx, gr, wanted, approved)
}

// formOf returns what makes of a gr what a request wants of it. An upgrade says itself
// what it is limited to, in the request or in the blueprint: what one before was limited
// to does not count. Without a blueprint nothing but the limit is changed.
func (a *API) formOf(ctx context.Context, gr, blueprint *topsv1.GcuResource, body upgradeBody) (form, error) {
	form := func(gr *topsv1.GcuResource) *topsv1.GcuResource { return gr.DeepCopy() }
	limited, cut := body.said(), body.cut()
	if blueprint != nil {
		form = func(gr *topsv1.GcuResource) *topsv1.GcuResource { return upgraded(gr, blueprint) }
		if !limited {
			var err error
			if cut, err = daemonset.CutOf(blueprint.Annotations); err != nil {
				return nil, badRequest("blueprint: %v", err)
			}
			limited = cut != nil
		}
	}
	if !limited {
		return form, nil
	}
	if cut != nil && a.Planner != nil {
		checked, wrong, err := a.Planner.CheckCut(ctx, form(gr), cut)
		if err != nil {
			return nil, err
		}
		if wrong != "" {
			return nil, badRequest("%s", wrong)
		}
		cut = checked
	}
	return func(gr *topsv1.GcuResource) *topsv1.GcuResource { return limitedTo(form(gr), cut) }, nil
}
