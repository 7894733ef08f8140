package ota

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/gorilla/mux"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
)

const (
	// maxBodyBytes bounds the body of a request.
	maxBodyBytes = 64 << 10
	// answerTimeout bounds a request: it waits for the one before it, and then makes
	// its own calls.
	answerTimeout = 2*callTimeout + 2*time.Second
)

// Desk is what the routes need behind them; Inbox is one. Its errors are of type
// *Refusal.
type Desk interface {
	// Pods returns the pods of this node; stale is when they were seen, nil for now.
	Pods(ctx context.Context) (pods *corev1.PodList, stale *metav1.Time, err error)
	// Ask requests the upgrade of a pod.
	Ask(ctx context.Context, namespace, pod string) error
	// Pull begins to pull the images of the newest revision of a pod.
	Pull(ctx context.Context, namespace, pod string) error
	// Status says how this node stands.
	Status(ctx context.Context) Status
	// Upgrade begins an operation.
	Upgrade(ctx context.Context, o Ordered) (Operation, error)
	// Operations returns the operations there are, the newest first.
	Operations() Operations
	// Operation returns one operation, and what is closed when there may be news of it.
	Operation(id string) (Operation, <-chan struct{}, error)
	// Withdraw takes back what has not started.
	Withdraw(ctx context.Context) (Operation, error)
	// Hold and Release tell that this node is to be left alone, and not any more.
	Hold(ctx context.Context, message string) (HoldState, error)
	Release(ctx context.Context) (HoldState, error)
}

// HandlerOptions of NewHandler. All fields are required.
type HandlerOptions struct {
	Desk Desk
	// Stopping is closed when nobody should wait for news any more.
	Stopping <-chan struct{}
	Clock    clock.Clock
	Log      logr.Logger
}

// NewHandler returns the routes of the endpoint (see the package's route table).
func NewHandler(o HandlerOptions) http.Handler {
	h := handlers{desk: o.Desk, log: o.Log, clock: o.Clock, stopping: o.Stopping, waiters: make(chan struct{}, maxWaiters)}
	// Paths are taken as they come, so that an escaped slash stays inside a
	// name and no request is redirected.
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	for path, route := range map[string]http.Handler{
		"/healthz": h.only(h.healthz, http.MethodGet, http.MethodHead),
		"/pods":    h.only(h.pods, http.MethodGet, http.MethodHead),
		"/openyurt.io/v1/namespaces/{ns}/pods/{pod}/upgrade":   h.only(h.upgrade, http.MethodPost),
		"/openyurt.io/v1/namespaces/{ns}/pods/{pod}/imagepull": h.only(h.imagePull, http.MethodPost),

		"/v1/openapi.yaml":                   h.only(h.openAPI, http.MethodGet, http.MethodHead),
		"/v1/status":                         h.only(h.status, http.MethodGet),
		"/v1/upgrade":                        h.only(h.order, http.MethodPost),
		"/v1/components/{component}/upgrade": h.only(h.order, http.MethodPost),
		"/v1/operations":                     h.only(h.operations, http.MethodGet),
		"/v1/operations/{id}":                h.only(h.operation, http.MethodGet),
		"/v1/hold":                           h.only(h.hold, http.MethodPost),
		"/v1/release":                        h.only(h.release, http.MethodPost),
		"/v1/rollback":                       h.only(h.rollback, http.MethodPost),
	} {
		router.Handle(path, route)
	}
	router.NotFoundHandler = http.HandlerFunc(h.notFound)
	return h.limited(router)
}

type handlers struct {
	desk     Desk
	log      logr.Logger
	clock    clock.Clock
	stopping <-chan struct{}
	// waiters has one token for each caller who waits for news.
	waiters chan struct{}
}

func (h handlers) healthz(w http.ResponseWriter, _ *http.Request) {
	h.writeText(w, http.StatusOK, "ok")
}

func (h handlers) notFound(w http.ResponseWriter, r *http.Request) {
	h.refuse(w, r, refuse(ReasonNoPath, "No such path: %.200q. There are GET /pods, POST /openyurt.io/v1/namespaces/{ns}/pods/{pod}/upgrade and /imagepull, and the paths of GET /v1/openapi.yaml.", r.URL.Path))
}

func (h handlers) pods(w http.ResponseWriter, r *http.Request) {
	pods, stale, err := h.desk.Pods(r.Context())
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	if stale != nil {
		w.Header().Set("Warning", fmt.Sprintf("110 - %q", "Response is Stale: seen at "+stale.UTC().Format(time.RFC3339)))
	}
	h.writeJSON(w, r, http.StatusOK, pods)
}

func (h handlers) upgrade(w http.ResponseWriter, r *http.Request) {
	namespace, pod := name(r, "ns"), name(r, "pod")
	if err := h.desk.Ask(r.Context(), namespace, pod); err != nil {
		h.refuse(w, r, err)
		return
	}
	h.writeText(w, http.StatusOK, fmt.Sprintf("Start updating pod %s/%s", namespace, pod))
}

func (h handlers) imagePull(w http.ResponseWriter, r *http.Request) {
	namespace, pod := name(r, "ns"), name(r, "pod")
	if err := h.desk.Pull(r.Context(), namespace, pod); err != nil {
		h.refuse(w, r, err)
		return
	}
	h.writeText(w, http.StatusOK, fmt.Sprintf("Image pre-pull requested for pod %s/%s", namespace, pod))
}

// name returns a part of the path. What cannot be unescaped is no name, and is
// refused as malformed like any other.
func name(r *http.Request, part string) string {
	escaped := mux.Vars(r)[part]
	if unescaped, err := url.PathUnescape(escaped); err == nil {
		return unescaped
	}
	return escaped
}

// only answers any other method with 405 and the methods there are, and a body of
// another type than JSON below /v1 with 415.
func (h handlers) only(handler http.HandlerFunc, methods ...string) http.Handler {
	allow := strings.Join(methods, ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(methods, r.Method) {
			w.Header().Set("Allow", allow)
			h.refuse(w, r, refuse(ReasonMethod, "Method %.20q is not allowed here: use %s.", r.Method, allow))
			return
		}
		if isOurs(r) && !isJSON(r) {
			h.refuse(w, r, refuse(ReasonNotJSON, "Content-Type %.80q: the body has to be application/json, or none.", r.Header.Get("Content-Type")))
			return
		}
		handler(w, r)
	})
}

// limited reads the body before the handler runs, refuses a large one and bounds the
// time the handler has, unless it waits for news.
func (h handlers) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var tooLarge *http.MaxBytesError
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
		if errors.As(err, &tooLarge) {
			h.refuse(w, r, refuse(ReasonTooLarge, "The body is larger than %d bytes: no path here needs one.", maxBodyBytes))
			return
		} else if err != nil {
			h.refuse(w, r, refuse(ReasonMalformed, "The body could not be read: send the request again."))
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		ctx, cancel := context.WithTimeout(r.Context(), answerTimeout+waitOf(r))
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func (h handlers) writeText(w http.ResponseWriter, status int, text string) {
	h.write(w, status, "text/plain; charset=utf-8", []byte(text))
}

func (h handlers) writeJSON(w http.ResponseWriter, r *http.Request, status int, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		h.refuse(w, r, fmt.Errorf("encoding the answer: %w", err))
		return
	}
	h.write(w, status, "application/json", data)
}

func (h handlers) write(w http.ResponseWriter, status int, kind string, data []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if _, err := w.Write(data); err != nil {
		h.log.V(4).Info("The caller went away", "cause", err.Error())
	}
}
