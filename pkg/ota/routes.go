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
	"strings"

	"github.com/go-logr/logr"
	"github.com/gorilla/mux"
	corev1 "k8s.io/api/core/v1"

	"github.com/topsops/gcu-operator/pkg/ota/guard"
)

// maxBodyBytes bounds the body of a request. No route needs a body.
const maxBodyBytes = 64 << 10

// statuses are the HTTP statuses of the reasons (contract statement 100 and
// the answers of OpenYurt).
var statuses = map[Reason]int{
	ReasonMalformed:    http.StatusBadRequest,
	ReasonPodMissing:   http.StatusNotFound,
	ReasonOtherNode:    http.StatusForbidden,
	ReasonTerminating:  http.StatusForbidden,
	ReasonNotDaemonSet: http.StatusBadRequest,
	ReasonNotNeeded:    http.StatusForbidden,
	ReasonTooMany:      http.StatusTooManyRequests,
	ReasonNotRecorded:  http.StatusInternalServerError,
	ReasonDisconnected: http.StatusServiceUnavailable,
}

// Desk is what the routes need behind them; Inbox is one.
type Desk interface {
	// Pods returns the pods of this node.
	Pods(ctx context.Context) (*corev1.PodList, error)
	// Ask requests the upgrade of a pod. Its errors are of type *Refusal.
	Ask(ctx context.Context, namespace, pod string) error
}

// NewHandler returns the routes of the endpoint (see the package's route table).
func NewHandler(desk Desk, log logr.Logger) http.Handler {
	h := handlers{desk: desk, log: log}
	// Paths are taken as they come, so that an escaped slash stays inside a
	// name and no request is redirected.
	router := mux.NewRouter().SkipClean(true).UseEncodedPath()
	router.Handle("/healthz", only(h.healthz, http.MethodGet, http.MethodHead))
	router.Handle("/pods", only(h.pods, http.MethodGet, http.MethodHead))
	router.Handle("/openyurt.io/v1/namespaces/{ns}/pods/{pod}/upgrade", only(h.upgrade, http.MethodPost))
	router.NotFoundHandler = http.HandlerFunc(h.notFound)
	return limited(router)
}

type handlers struct {
	desk Desk
	log  logr.Logger
}

// Deny answers a request that does not get to the handler.
func Deny(w http.ResponseWriter, _ *http.Request, d *guard.Denial) {
	http.Error(w, d.Message, d.Status)
}

func (h handlers) healthz(w http.ResponseWriter, _ *http.Request) {
	h.writeText(w, http.StatusOK, "ok")
}

func (h handlers) notFound(w http.ResponseWriter, r *http.Request) {
	h.writeText(w, http.StatusNotFound, fmt.Sprintf("No such path: %.200q. There are GET /pods and POST /openyurt.io/v1/namespaces/{ns}/pods/{pod}/upgrade.\n", r.URL.Path))
}

func (h handlers) pods(w http.ResponseWriter, r *http.Request) {
	pods, err := h.desk.Pods(r.Context())
	if err != nil {
		h.writeError(w, err)
		return
	}
	h.writeJSON(w, pods)
}

func (h handlers) upgrade(w http.ResponseWriter, r *http.Request) {
	namespace, pod := name(r, "ns"), name(r, "pod")
	if err := h.desk.Ask(r.Context(), namespace, pod); err != nil {
		h.writeError(w, err)
		return
	}
	h.writeText(w, http.StatusOK, fmt.Sprintf("Start updating pod %s/%s", namespace, pod))
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

// only answers any other method with 405 and the methods there are.
func only(handler http.HandlerFunc, methods ...string) http.Handler {
	allow := strings.Join(methods, ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, method := range methods {
			if r.Method == method {
				handler(w, r)
				return
			}
		}
		w.Header().Set("Allow", allow)
		http.Error(w, fmt.Sprintf("Method %.20q is not allowed here: use %s.", r.Method, allow), http.StatusMethodNotAllowed)
	})
}

// limited reads the body before the handler runs, refuses a large one and bounds the
// time the handler has.
func limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var tooLarge *http.MaxBytesError
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBodyBytes))
		if errors.As(err, &tooLarge) {
			http.Error(w, fmt.Sprintf("The body is larger than %d bytes: no path here needs one.", maxBodyBytes), http.StatusRequestEntityTooLarge)
			return
		} else if err != nil {
			http.Error(w, "The body could not be read: send the request again.", http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func (h handlers) writeError(w http.ResponseWriter, err error) {
	status := http.StatusInternalServerError
	var refusal *Refusal
	if errors.As(err, &refusal) {
		status = statuses[refusal.Reason]
	}
	h.log.V(1).Info("Refusing", "status", status, "cause", err.Error())
	// One line, whatever the API server's message contains.
	h.writeText(w, status, strings.Join(strings.Fields(err.Error()), " ")+"\n")
}

func (h handlers) writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := io.WriteString(w, text); err != nil {
		h.log.V(4).Info("The caller went away", "cause", err.Error())
	}
}

func (h handlers) writeJSON(w http.ResponseWriter, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		h.writeError(w, fmt.Errorf("encoding the answer: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if _, err := w.Write(data); err != nil {
		h.log.V(4).Info("The caller went away", "cause", err.Error())
	}
}
