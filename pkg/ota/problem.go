package ota

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/topsops/gcu-operator/pkg/ota/guard"
)

// statuses are the HTTP statuses of the reasons (contract statement 100 and
// the answers of OpenYurt).
var statuses = map[Reason]int{
	ReasonMalformed:        http.StatusBadRequest,
	ReasonPodMissing:       http.StatusNotFound,
	ReasonOtherNode:        http.StatusForbidden,
	ReasonTerminating:      http.StatusForbidden,
	ReasonNotDaemonSet:     http.StatusBadRequest,
	ReasonNotNeeded:        http.StatusForbidden,
	ReasonNodeHeld:         http.StatusForbidden,
	ReasonImageNotReady:    http.StatusForbidden,
	ReasonTooMany:          http.StatusTooManyRequests,
	ReasonNotRecorded:      http.StatusInternalServerError,
	ReasonDisconnected:     http.StatusServiceUnavailable,
	ReasonNoPath:           http.StatusNotFound,
	ReasonMethod:           http.StatusMethodNotAllowed,
	ReasonTooLarge:         http.StatusRequestEntityTooLarge,
	ReasonNotJSON:          http.StatusUnsupportedMediaType,
	ReasonComponentMissing: http.StatusNotFound,
	ReasonOperationMissing: http.StatusNotFound,
	ReasonAmbiguous:        http.StatusConflict,
	ReasonNotOTA:           http.StatusConflict,
	ReasonOperationRunning: http.StatusConflict,
	ReasonFleetWide:        http.StatusConflict,
	ReasonKeyReused:        http.StatusUnprocessableEntity,
}

// ownStatuses are those that differ below /v1: what is in the way there may pass.
var ownStatuses = map[Reason]int{
	ReasonOtherNode:     http.StatusConflict,
	ReasonTerminating:   http.StatusConflict,
	ReasonNotNeeded:     http.StatusConflict,
	ReasonNodeHeld:      http.StatusConflict,
	ReasonImageNotReady: http.StatusConflict,
}

// isOurs reports whether a request is for a path of our own, which speaks JSON.
func isOurs(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/v1/") }

func statusOf(r *http.Request, reason Reason) int {
	if status, differs := ownStatuses[reason]; differs && isOurs(r) {
		return status
	}
	if status, known := statuses[reason]; known {
		return status
	}
	return http.StatusInternalServerError
}

// refuse answers with an error: a problem (RFC 9457) below /v1, one line of text
// elsewhere.
func (h handlers) refuse(w http.ResponseWriter, r *http.Request, err error) {
	problem := Problem{Title: "Error", Status: http.StatusInternalServerError, Detail: oneLine(err.Error())}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		problem.Title, problem.Status, problem.Operation = string(refusal.Reason), statusOf(r, refusal.Reason), refusal.Operation
	}
	h.log.V(1).Info("Refusing", "status", problem.Status, "reason", problem.Title, "cause", err.Error())
	writeProblem(w, r, problem)
}

// Deny answers a request that does not get to the handler.
func Deny(w http.ResponseWriter, r *http.Request, d *guard.Denial) {
	writeProblem(w, r, Problem{Title: d.Reason, Status: d.Status, Detail: oneLine(d.Message)})
}

// oneLine is a message on one line, whatever the API server's contains.
func oneLine(message string) string { return strings.Join(strings.Fields(message), " ") }

func writeProblem(w http.ResponseWriter, r *http.Request, p Problem) {
	data, err := json.Marshal(p)
	kind := "application/problem+json"
	if err != nil || !isOurs(r) {
		data, kind = []byte(p.Detail+"\n"), "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_, _ = w.Write(data) // who went away does not read it
}
