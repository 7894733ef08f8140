package endpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"

	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// responder writes all responses.
type responder struct{ log logr.Logger }

// refuse responds with an error: a problem (RFC 9457) below /v1, one line of text
// elsewhere.
func (re responder) refuse(w http.ResponseWriter, r *http.Request, err error) {
	problem := response.Problem{Title: "Error", Status: http.StatusInternalServerError, Detail: oneLine(err.Error())}
	if refusal, ok := errors.AsType[*request.Refusal](err); ok {
		problem.Title, problem.Status, problem.Operation = string(refusal.Reason), statusOf(r, refusal.Reason), refusal.Operation
	}
	re.log.V(1).Info("Refusing", "status", problem.Status, "reason", problem.Title, "cause", err.Error())
	writeProblem(w, r, problem)
}

func (re responder) writeText(w http.ResponseWriter, status int, text string) {
	re.write(w, status, "text/plain; charset=utf-8", []byte(text))
}

func (re responder) writeJSON(w http.ResponseWriter, r *http.Request, status int, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		re.refuse(w, r, fmt.Errorf("encoding the response: %w", err))
		return
	}
	re.write(w, status, "application/json", data)
}

func (re responder) write(w http.ResponseWriter, status int, kind string, data []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if _, err := plaintext.NewWriter(w).Write(data); err != nil {
		re.log.V(4).Info("The client disconnected", "cause", err.Error())
	}
}
