package upgradeapi

import (
	"context"
	_ "embed" // for the OpenAPI document
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"
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
	post := func(operation string, do func(context.Context, call) (any, error)) map[string]endpoint {
		return map[string]endpoint{http.MethodPost: {operation: operation, verb: "update", do: do}}
	}
	one := read(OperationGet, "get", a.get)
	one[http.MethodPut] = endpoint{operation: OperationUpgrade, verb: "update", do: a.upgrade}
	one[http.MethodDelete] = endpoint{operation: OperationDelete, verb: "delete", timeout: a.Deadline, do: a.remove}

	// Paths are taken as they come, so that an escaped slash stays inside a name
	// and no request is redirected: a slash at the end may be there or not
	// (contract statement 62).
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	path := func(template string, methods map[string]endpoint) {
		router.Handle(template+"{slash:/?}", a.methods(methods))
	}
	path("/gum/v1/gr", read(OperationList, "list", a.list))
	path("/gum/v1/gr/{name}", one)
	path("/gum/v1/gr/{name}/resource/{kind}", read(OperationGet, "get", a.resource))
	path("/gum/v1/gr/{name}/rollout", read(OperationGet, "get", a.rollout))
	path("/gum/v1/gr/{name}/revisions", read(OperationList, "get", a.revisions))
	path("/gum/v1/gr/{name}/plan", a.planning())
	path("/gum/v1/gr/{name}/rollback", post(OperationRollback, a.rollback))
	path("/gum/v1/gr/{name}/pause", post(OperationPause, a.pause))
	path("/gum/v1/gr/{name}/resume", post(OperationResume, a.resume))
	router.HandleFunc("/gum/v1/openapi.yaml{slash:/?}", a.openAPI).Methods(http.MethodGet, http.MethodHead)
	router.NotFoundHandler = a.refusing(func(r *http.Request) error {
		return refuse(http.StatusNotFound, "no such path: %.200q; GET /gum/v1/openapi.yaml lists them", r.URL.EscapedPath())
	})
	router.MethodNotAllowedHandler = a.notAllowed(http.MethodGet, http.MethodHead)
	return router
}

// methods answers with the endpoint of the method, any other with 405.
func (a *API) methods(of map[string]endpoint) http.Handler {
	var allowed []string
	for method := range of {
		allowed = append(allowed, method)
	}
	slices.Sort(allowed)
	other := a.notAllowed(allowed...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e, ok := of[r.Method]; ok {
			a.serve(w, r, e)
			return
		}
		other.ServeHTTP(w, r)
	})
}

func (a *API) notAllowed(allowed ...string) http.Handler {
	list := strings.Join(allowed, ", ")
	refusing := a.refusing(func(r *http.Request) error {
		return refuse(http.StatusMethodNotAllowed, "method %.20q is not allowed here: use %s", r.Method, list)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", list)
		refusing.ServeHTTP(w, r)
	})
}

// refusing answers with an error whoever calls.
func (a *API) refusing(why func(*http.Request) error) http.Handler {
	operations := map[string]string{http.MethodPut: OperationUpgrade, http.MethodDelete: OperationDelete}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation, ok := operations[r.Method]
		if !ok {
			operation = OperationGet
		}
		entry := a.begin(w, r, operation)
		err := why(r)
		if !a.limits.allow("address "+entry.remote, true) {
			err = tooMany()
		}
		a.answer(w, entry, nil, err)
	})
}

func (a *API) openAPI(w http.ResponseWriter, r *http.Request) {
	entry := a.begin(w, r, OperationGet)
	if !a.limits.allow("address "+entry.remote, true) {
		a.answer(w, entry, nil, tooMany())
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	entry.tell(a, http.StatusOK, "")
	a.send(w, entry, http.StatusOK, Document)
}
