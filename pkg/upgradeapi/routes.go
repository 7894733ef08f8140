package upgradeapi

import (
	"context"
	_ "embed" // for the OpenAPI document
	"net/http"

	"github.com/gorilla/mux"

	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// Document is the OpenAPI 3 description of the routes, in YAML.
//
//go:embed openapi.yaml
var Document []byte

// Handler returns the routes (see the package's route table).
func (a *API) Handler() http.Handler {
	read := func(operation, verb string, do func(context.Context, call) (any, error)) map[string]endpoint {
		e := endpoint{operation: operation, verb: verb, reads: true, do: do}
		return map[string]endpoint{http.MethodGet: e, http.MethodHead: e}
	}
	costly := func(operation string, do func(context.Context, call) (any, error)) map[string]endpoint {
		e := endpoint{operation: operation, verb: "get", reads: true, costly: true, do: do}
		return map[string]endpoint{http.MethodGet: e, http.MethodHead: e}
	}
	post := func(operation string, do func(context.Context, call) (any, error)) map[string]endpoint {
		return map[string]endpoint{http.MethodPost: {operation: operation, verb: "update", do: do}}
	}
	reads, control := &reads{a.cluster, a.cache}, &rolloutControl{a.cluster, a.Access, a.Clock}
	upgrades, plans := &upgrades{a.resolver, a.Access, a.Clock}, &plans{a.resolver}
	one := read(OperationGet, "get", reads.get)
	one[http.MethodPut] = endpoint{operation: OperationUpgrade, verb: "update", do: upgrades.upgrade}
	one[http.MethodDelete] = endpoint{operation: OperationDelete, verb: "delete", timeout: a.Deadline + responseTimeout, do: a.deletions.delete}
	plan := costly(OperationPlan, plans.get)
	plan[http.MethodPost] = endpoint{operation: OperationPlan, verb: "get", reads: true, costly: true, do: plans.post}
	planFiles, results := &planFiles{plans, upgrades, a.Access}, &planResults{reads, a.resolver}
	plan[http.MethodPut] = endpoint{operation: OperationUpgrade, verb: "update", flag: "step", do: planFiles.run}
	file := costly(OperationPlan, planFiles.get)
	file[http.MethodPost] = endpoint{operation: OperationPlan, verb: "get", reads: true, costly: true, do: planFiles.post}

	// Paths are not cleaned, so that an escaped slash stays part of a name and no request is
	// redirected: a trailing slash is optional (contract statement 62).
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	path := func(template string, methods map[string]endpoint) {
		router.Handle(template+optionalSlash, a.middleware.methods(methods))
	}
	path("/gum/v1/gr", read(OperationList, "list", reads.list))
	path("/gum/v1/gr/{name}", one)
	path("/gum/v1/gr/{name}/resource/{kind}", read(OperationGet, "get", reads.component))
	path("/gum/v1/gr/{name}/rollout", read(OperationGet, "get", reads.rollout))
	path("/gum/v1/gr/{name}/revisions", read(OperationList, "get", reads.revisions))
	path("/gum/v1/gr/{name}/plan", plan)
	path("/gum/v1/gr/{name}/plan/file", file)
	path("/gum/v1/gr/{name}/plan/results", costly(OperationList, results.list))
	path("/gum/v1/gr/{name}/plan/results/{plan}", costly(OperationGet, results.get))
	path("/gum/v1/gr/{name}/rollback", post(OperationRollback, control.rollback))
	path("/gum/v1/gr/{name}/pause", post(OperationPause, control.pause))
	path("/gum/v1/gr/{name}/resume", post(OperationResume, control.resume))
	router.Handle("/gum/v1/openapi.yaml"+optionalSlash, a.middleware.document(contentTypeYAML, Document)).Methods(http.MethodGet, http.MethodHead)
	router.NotFoundHandler = a.middleware.refusing(func(r *http.Request) error {
		return request.Refuse(http.StatusNotFound, "no such path: %.200q; GET /gum/v1/openapi.yaml lists them", r.URL.EscapedPath())
	})
	router.MethodNotAllowedHandler = a.middleware.notAllowed(http.MethodGet, http.MethodHead)
	return a.middleware.native(router)
}
