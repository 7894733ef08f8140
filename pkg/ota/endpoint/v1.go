package endpoint

import (
	"context"
	_ "embed"
	"net/http"
	"reflect"

	"github.com/gorilla/mux"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/ota/guard"
	"github.com/topsops/gcu-operator/pkg/ota/request"
	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// OpenAPI describes the paths below /v1.
//
//go:embed openapi.yaml
var OpenAPI []byte

const (
	// maxWaiters bounds the callers that wait concurrently, so that connections remain for
	// others; further callers get an immediate response.
	maxWaiters = 8
	// latest is the value of revision for the newest one at any time.
	latest = "latest"
)

// v1 handles the paths of our own API, described in openapi.yaml.
type v1 struct {
	responder
	backend Backend
	// addressInUse is Options.AddressInUse.
	addressInUse func() string
	clock        clock.Clock
	stopping     <-chan struct{}
	// waiters has one token for each waiting caller.
	waiters chan struct{}
}

func (v v1) openAPI(w http.ResponseWriter, _ *http.Request) {
	v.write(w, http.StatusOK, "application/yaml", OpenAPI)
}

func (v v1) status(w http.ResponseWriter, r *http.Request) {
	status := v.backend.Status(r.Context())
	if v.addressInUse != nil {
		status.AddressInUse = v.addressInUse()
	}
	v.writeJSON(w, r, http.StatusOK, status)
}

func (v v1) operations(w http.ResponseWriter, r *http.Request) {
	v.writeJSON(w, r, http.StatusOK, v.backend.Operations())
}

// upgrade starts the upgrade of a component, or of everything outdated.
func (v v1) upgrade(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Revision string `json:"revision"`
	}
	if refusal := decodeBody(r, &body); refusal != nil {
		v.refuse(w, r, refusal)
		return
	}
	if body.Revision != "" && body.Revision != latest {
		v.refuse(w, r, request.Refuse(request.ReasonMalformed, "revision %.80q is not %q: a node goes to the newest revision of its fleet, or stays.", body.Revision, latest))
		return
	}
	v.begin(w, r, request.Wanted{Latest: body.Revision == latest}, v.backend.Upgrade)
}

// begin starts what is wanted for the component of the path, or for all.
func (v v1) begin(w http.ResponseWriter, r *http.Request, wanted request.Wanted, start func(context.Context, request.Operation, string) (response.Operation, error)) {
	if _, one := mux.Vars(r)["component"]; one {
		wanted.Component = name(r, "component")
	}
	operation, err := start(r.Context(), request.Operation{Wanted: wanted}, r.Header.Get("Idempotency-Key"))
	if err != nil {
		v.refuse(w, r, err)
		return
	}
	status := http.StatusAccepted
	if operation.State.Final() && wanted.Rollback {
		status = http.StatusOK
	}
	w.Header().Set("Location", "/v1/operations/"+operation.ID)
	v.writeJSON(w, r, status, operation)
}

// operation responds at once, or with ?wait on a change or when the time is up.
func (v v1) operation(w http.ResponseWriter, r *http.Request) {
	if text := r.URL.Query().Get("wait"); text != "" && waitOf(r) == 0 {
		v.refuse(w, r, request.Refuse(request.ReasonMalformed, "wait %.80q is not a duration from 1ms to %s, such as 30s.", text, maxWait))
		return
	}
	id := name(r, "id")
	first, changed, err := v.backend.Operation(id)
	if err != nil {
		v.refuse(w, r, err)
		return
	}
	v.writeJSON(w, r, http.StatusOK, v.awaited(w, r, first, changed))
}

// awaited returns the operation once it differs from first, or first if it has ended, the
// time is up, the server stops, or too many callers wait.
func (v v1) awaited(w http.ResponseWriter, r *http.Request, first response.Operation, changed <-chan struct{}) response.Operation {
	wait := waitOf(r)
	if wait == 0 || first.State.Final() {
		return first
	}
	select {
	case v.waiters <- struct{}{}:
		defer func() { <-v.waiters }()
	default:
		return first
	}
	// Without a connection there is no deadline to set.
	_ = http.NewResponseController(w).SetWriteDeadline(v.clock.Now().Add(wait + guard.WriteTimeout))
	timer := v.clock.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-changed:
		case <-timer.C():
			return first
		case <-v.stopping:
			return first
		case <-r.Context().Done():
			return first
		}
		next, again, err := v.backend.Operation(first.ID)
		if err != nil {
			return first // no longer kept, so it has ended
		}
		if !reflect.DeepEqual(first, next) {
			return next
		}
		changed = again
	}
}

func (v v1) hold(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Message string `json:"message"`
	}
	if refusal := decodeBody(r, &body); refusal != nil {
		v.refuse(w, r, refusal)
		return
	}
	v.writeHold(w, r)(v.backend.Hold(r.Context(), oneLine(body.Message)))
}

func (v v1) release(w http.ResponseWriter, r *http.Request) {
	if refusal := decodeBody(r, &struct{}{}); refusal != nil {
		v.refuse(w, r, refusal)
		return
	}
	v.writeHold(w, r)(v.backend.Release(r.Context()))
}

func (v v1) writeHold(w http.ResponseWriter, r *http.Request) func(response.Hold, error) {
	return func(state response.Hold, err error) {
		if err != nil {
			v.refuse(w, r, err)
			return
		}
		v.writeJSON(w, r, http.StatusOK, state)
	}
}

// rollback takes back what was requested: it withdraws what has not started, or else restores the previous revision.
func (v v1) rollback(w http.ResponseWriter, r *http.Request) {
	if refusal := decodeBody(r, &struct{}{}); refusal != nil {
		v.refuse(w, r, refusal)
		return
	}
	v.begin(w, r, request.Wanted{Rollback: true}, v.backend.Rollback)
}
