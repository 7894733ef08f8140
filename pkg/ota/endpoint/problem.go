package endpoint

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/topsops/gcu-operator/pkg/ota/guard"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// statuses are the HTTP statuses of the reasons (contract statement 100 and
// the responses of OpenYurt).
var statuses = map[request.Reason]int{
	request.ReasonMalformed:        http.StatusBadRequest,
	request.ReasonPodMissing:       http.StatusNotFound,
	request.ReasonOtherNode:        http.StatusForbidden,
	request.ReasonTerminating:      http.StatusForbidden,
	request.ReasonNotDaemonSet:     http.StatusBadRequest,
	request.ReasonNotNeeded:        http.StatusForbidden,
	request.ReasonNodeHeld:         http.StatusForbidden,
	request.ReasonImageNotReady:    http.StatusForbidden,
	request.ReasonTooMany:          http.StatusTooManyRequests,
	request.ReasonNotRecorded:      http.StatusInternalServerError,
	request.ReasonDisconnected:     http.StatusServiceUnavailable,
	request.ReasonNoPath:           http.StatusNotFound,
	request.ReasonMethod:           http.StatusMethodNotAllowed,
	request.ReasonTooLarge:         http.StatusRequestEntityTooLarge,
	request.ReasonNotJSON:          http.StatusUnsupportedMediaType,
	request.ReasonComponentMissing: http.StatusNotFound,
	request.ReasonOperationMissing: http.StatusNotFound,
	request.ReasonAmbiguous:        http.StatusConflict,
	request.ReasonNotOTA:           http.StatusConflict,
	request.ReasonOperationRunning: http.StatusConflict,
	request.ReasonKeyReused:        http.StatusUnprocessableEntity,
}

// ownStatuses are those that differ below /v1, where the obstacle may be temporary.
var ownStatuses = map[request.Reason]int{
	request.ReasonOtherNode:     http.StatusConflict,
	request.ReasonTerminating:   http.StatusConflict,
	request.ReasonNotNeeded:     http.StatusConflict,
	request.ReasonNodeHeld:      http.StatusConflict,
	request.ReasonImageNotReady: http.StatusConflict,
}

// isOurs reports whether a request is for a path of our own API, which uses JSON.
func isOurs(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/") }

func statusOf(r *http.Request, reason request.Reason) int {
	if status, differs := ownStatuses[reason]; differs && isOurs(r) {
		return status
	}
	if status, known := statuses[reason]; known {
		return status
	}
	return http.StatusInternalServerError
}

// Deny writes the response to a request that package guard rejects.
func Deny(w http.ResponseWriter, r *http.Request, d *guard.Denial) {
	writeProblem(w, r, response.Problem{Title: d.Reason, Status: d.Status, Detail: oneLine(d.Message)})
}

// oneLine puts a message on one line, whatever an API server's message contains.
func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }

func writeProblem(w http.ResponseWriter, r *http.Request, p response.Problem) {
	data, err := json.Marshal(p)
	kind := "application/problem+json"
	if err != nil || !isOurs(r) {
		data, kind = []byte(p.Detail+"\n"), "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_, _ = plaintext.NewWriter(w).Write(data) // a caller that disconnected does not read it
}
