package ota

import (
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"reflect"
	"time"

	"github.com/gorilla/mux"

	"github.com/topsops/gcu-operator/pkg/ota/guard"
)

// OpenAPI describes the paths below /v1.
//
//go:embed openapi.yaml
var OpenAPI []byte

const (
	// maxWait bounds ?wait.
	maxWait = time.Minute
	// maxWaiters bounds the callers who wait at the same time, so that there are
	// connections for others; who comes later is answered at once.
	maxWaiters = 8
	// latest is the value of revision for whatever is the newest.
	latest = "latest"
)

func (h handlers) openAPI(w http.ResponseWriter, _ *http.Request) {
	h.write(w, http.StatusOK, "application/yaml", OpenAPI)
}

func (h handlers) status(w http.ResponseWriter, r *http.Request) {
	h.writeJSON(w, r, http.StatusOK, h.desk.Status(r.Context()))
}

func (h handlers) operations(w http.ResponseWriter, r *http.Request) {
	h.writeJSON(w, r, http.StatusOK, h.desk.Operations())
}

// order begins the upgrade of a component, or of all that is outdated.
func (h handlers) order(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Revision string `json:"revision"`
	}
	if refusal := decodeBody(r, &body); refusal != nil {
		h.refuse(w, r, refusal)
		return
	}
	if body.Revision != "" && body.Revision != latest {
		h.refuse(w, r, refuse(ReasonMalformed, "revision %.80q is not %q: a node goes to the newest revision of its fleet, or stays.", body.Revision, latest))
		return
	}
	ordered := Ordered{Latest: body.Revision == latest, Key: r.Header.Get("Idempotency-Key")}
	if _, one := mux.Vars(r)["component"]; one {
		ordered.Component = name(r, "component")
	}
	operation, err := h.desk.Upgrade(r.Context(), ordered)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	w.Header().Set("Location", "/v1/operations/"+operation.ID)
	h.writeJSON(w, r, http.StatusAccepted, operation)
}

// operation answers at once, or with ?wait when there is news or the time is over.
func (h handlers) operation(w http.ResponseWriter, r *http.Request) {
	if text := r.URL.Query().Get("wait"); text != "" && waitOf(r) == 0 {
		h.refuse(w, r, refuse(ReasonMalformed, "wait %.80q is not a duration from 1ms to %s, such as 30s.", text, maxWait))
		return
	}
	id := name(r, "id")
	first, changed, err := h.desk.Operation(id)
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	h.writeJSON(w, r, http.StatusOK, h.awaited(w, r, first, changed))
}

// awaited returns an operation when it is another than first, when it has ended, or when
// the time to wait is over.
func (h handlers) awaited(w http.ResponseWriter, r *http.Request, first Operation, changed <-chan struct{}) Operation {
	wait := waitOf(r)
	if wait == 0 || first.State.Final() {
		return first
	}
	select {
	case h.waiters <- struct{}{}:
		defer func() { <-h.waiters }()
	default:
		return first
	}
	// Without a connection there is no deadline either.
	_ = http.NewResponseController(w).SetWriteDeadline(h.clock.Now().Add(wait + guard.WriteTimeout))
	timer := h.clock.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-changed:
		case <-timer.C():
			return first
		case <-h.stopping:
			return first
		case <-r.Context().Done():
			return first
		}
		next, again, err := h.desk.Operation(first.ID)
		if err != nil {
			return first // it is forgotten, and has ended then
		}
		if !reflect.DeepEqual(first, next) {
			return next
		}
		changed = again
	}
}

// waitOf returns the time that a request wants to wait, 0 for none or for one that is
// not good.
func waitOf(r *http.Request) time.Duration {
	wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if err != nil || wait < time.Millisecond || wait > maxWait {
		return 0
	}
	return wait
}

func (h handlers) hold(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Message string `json:"message"`
	}
	if refusal := decodeBody(r, &body); refusal != nil {
		h.refuse(w, r, refusal)
		return
	}
	h.answerHold(w, r)(h.desk.Hold(r.Context(), oneLine(body.Message)))
}

func (h handlers) release(w http.ResponseWriter, r *http.Request) {
	if refusal := decodeBody(r, &struct{}{}); refusal != nil {
		h.refuse(w, r, refusal)
		return
	}
	h.answerHold(w, r)(h.desk.Release(r.Context()))
}

func (h handlers) answerHold(w http.ResponseWriter, r *http.Request) func(HoldState, error) {
	return func(state HoldState, err error) {
		if err != nil {
			h.refuse(w, r, err)
			return
		}
		h.writeJSON(w, r, http.StatusOK, state)
	}
}

// rollback takes back what has not started; what has, it refuses.
func (h handlers) rollback(w http.ResponseWriter, r *http.Request) {
	if refusal := decodeBody(r, &struct{}{}); refusal != nil {
		h.refuse(w, r, refusal)
		return
	}
	operation, err := h.desk.Withdraw(r.Context())
	if err != nil {
		h.refuse(w, r, err)
		return
	}
	status := http.StatusAccepted
	if operation.State.Final() {
		status = http.StatusOK
	}
	w.Header().Set("Location", "/v1/operations/"+operation.ID)
	h.writeJSON(w, r, status, operation)
}

// decodeBody reads a JSON object, or nothing. The body was read, and is small.
func decodeBody(r *http.Request, into any) *Refusal {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return refuse(ReasonMalformed, "The body is not the JSON object that is wanted here: %v.", err)
	}
	if decoder.More() {
		return refuse(ReasonMalformed, "The body has something behind its JSON object.")
	}
	return nil
}

// isJSON reports whether the body of a request is said to be JSON, or there is none.
func isJSON(r *http.Request) bool {
	given := r.Header.Get("Content-Type")
	if given == "" {
		return r.ContentLength == 0
	}
	kind, _, err := mime.ParseMediaType(given)
	return err == nil && kind == "application/json"
}
