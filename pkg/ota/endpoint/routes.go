package endpoint

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/gorilla/mux"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// maxBodyBytes bounds the body of a request.
const maxBodyBytes = 64 << 10

// Options of NewHandler. All fields but AddressInUse and PodUID are required.
type Options struct {
	Backend Backend
	// AddressInUse returns the TCP address of the endpoint while another process listens there,
	// "" otherwise.
	AddressInUse func() string
	// PodUID is that of the agent's pod, "" for none.
	PodUID string
	// Stopping is closed at shutdown, to end requests that wait for a change.
	Stopping <-chan struct{}
	Clock    clock.Clock
	Log      logr.Logger
}

// NewHandler returns the routes of the endpoint (see the package's route table).
func NewHandler(o Options) http.Handler {
	re := responder{o.Log}
	pods := openYurt{responder: re, backend: o.Backend}
	ours := v1{responder: re, backend: o.Backend, addressInUse: o.AddressInUse, clock: o.Clock, stopping: o.Stopping, waiters: make(chan struct{}, maxWaiters)}
	// Match raw paths, so that an escaped slash stays inside a name and no request is
	// redirected.
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	for path, route := range map[string]http.Handler{
		"/healthz": re.only(re.healthz(o.PodUID), http.MethodGet, http.MethodHead),
		"/pods":    re.only(pods.list, http.MethodGet, http.MethodHead),
		"/openyurt.io/v1/namespaces/{ns}/pods/{pod}/upgrade":   re.only(pods.upgrade, http.MethodPost),
		"/openyurt.io/v1/namespaces/{ns}/pods/{pod}/imagepull": re.only(pods.imagePull, http.MethodPost),

		"/v1/openapi.yaml":                    re.only(ours.openAPI, http.MethodGet, http.MethodHead),
		"/v1/status":                          re.only(ours.status, http.MethodGet),
		"/v1/upgrade":                         re.only(ours.upgrade, http.MethodPost),
		"/v1/components/{component}/upgrade":  re.only(ours.upgrade, http.MethodPost),
		"/v1/operations":                      re.only(ours.operations, http.MethodGet),
		"/v1/operations/{id}":                 re.only(ours.operation, http.MethodGet),
		"/v1/hold":                            re.only(ours.hold, http.MethodPost),
		"/v1/release":                         re.only(ours.release, http.MethodPost),
		"/v1/rollback":                        re.only(ours.rollback, http.MethodPost),
		"/v1/components/{component}/rollback": re.only(ours.rollback, http.MethodPost),
	} {
		router.Handle(path, route)
	}
	router.NotFoundHandler = http.HandlerFunc(re.notFound)
	return re.limited(router)
}

func (re responder) healthz(podUID string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(response.PodHeader, podUID)
		re.writeText(w, http.StatusOK, "ok")
	}
}

func (re responder) notFound(w http.ResponseWriter, r *http.Request) {
	re.refuse(w, r, request.Refuse(request.ReasonNoPath, "No such path: %.200q. There are GET /pods, POST /openyurt.io/v1/namespaces/{ns}/pods/{pod}/upgrade and /imagepull, and the paths of GET /v1/openapi.yaml.", r.URL.Path))
}

// only responds to other methods with 405 and Allow, and below /v1 to a body of another
// type than JSON with 415.
func (re responder) only(handler http.HandlerFunc, methods ...string) http.Handler {
	allow := strings.Join(methods, ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(methods, r.Method) {
			w.Header().Set("Allow", allow)
			re.refuse(w, r, request.Refuse(request.ReasonMethod, "Method %.20q is not allowed here: use %s.", r.Method, allow))
			return
		}
		if isOurs(r) && !isJSON(r) {
			re.refuse(w, r, request.Refuse(request.ReasonNotJSON, "Content-Type %.80q: the body has to be application/json, or none.", r.Header.Get("Content-Type")))
			return
		}
		handler(w, r)
	})
}

// limited reads the body before the handler runs, refuses one that is too large, and bounds
// the time of the handler, including ?wait.
func (re responder) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var tooLarge *http.MaxBytesError
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
		if errors.As(err, &tooLarge) {
			re.refuse(w, r, request.Refuse(request.ReasonTooLarge, "The body is larger than %d bytes: no path here needs one.", maxBodyBytes))
			return
		} else if err != nil {
			re.refuse(w, r, request.Refuse(request.ReasonMalformed, "The body could not be read: send the request again."))
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		ctx, cancel := context.WithTimeout(r.Context(), responseTimeout+waitOf(r))
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}
