package upgradeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gorilla/mux"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/pkg/logging"
)

// entry is what the log tells of a request (contract statement 78).
type entry struct {
	operation, request, method, path, name, remote, agent, user, body string
	begun                                                             time.Time
}

// requestID is an id that a caller may give.
var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// begin gives a request its id: the caller's own when that is one.
func (a *API) begin(w http.ResponseWriter, r *http.Request, operation string) *entry {
	id := r.Header.Get("X-Request-Id")
	if !requestID.MatchString(id) {
		id = string(uuid.NewUUID())
	}
	w.Header().Set("X-Request-Id", id)
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	return &entry{operation: operation, request: id, method: r.Method, path: r.URL.RequestURI(), name: part(r, "name"), remote: host,
		agent: r.UserAgent(), begun: a.Clock.Now()}
}

// serve runs an endpoint.
func (a *API) serve(w http.ResponseWriter, r *http.Request, e endpoint) {
	entry := a.begin(w, r, e.operation)
	content, err := a.run(w, r, e, entry)
	a.answer(w, entry, content, err)
}

// run admits the caller, reads the body and calls the handler. A panic is an
// error, so that the caller is answered and the log has its line.
func (a *API) run(w http.ResponseWriter, r *http.Request, e endpoint, entry *entry) (content any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			content, err = nil, a.panicked(entry, cause)
		}
	}()
	timeout := e.timeout
	if timeout == 0 {
		timeout = callTimeout
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	c := call{name: entry.name, kind: part(r, "kind"), query: r.URL.Query(), request: entry.request, deadlines: http.NewResponseController(w)}
	if c.user, err = a.admit(ctx, r, e, entry); err != nil {
		return nil, err
	}
	if c.name != "" && !validName(c.name) { // nor is it remembered, in any of the caches
		return nil, apierrors.NewNotFound(grResource, c.name)
	}
	if err := a.authorize(ctx, c, e.verb); err != nil {
		return nil, err
	}
	if c.body, err = readBody(w, r); err != nil {
		return nil, err
	}
	entry.body = loggable(c.body)
	if !e.reads {
		if c.dryRun, err = dryRunIn(r.URL.Query()); err != nil {
			return nil, err
		}
		logger := a.Log.WithValues(logging.GcuResource(c.name, "")...).WithValues("requestID", entry.request, "user", entry.user, "remote", entry.remote)
		ctx = log.IntoContext(ctx, logger)
		if !c.dryRun { // before as well: others may look while a deletion is waited for
			a.written.Add(c.name, true, timeout+cacheLag)
			defer a.written.Add(c.name, true, cacheLag)
		}
	}
	return e.do(ctx, c)
}

// panicked tells of a defect of ours and returns what the caller is told.
func (a *API) panicked(entry *entry, cause any) error {
	a.Log.Error(fmt.Errorf("panic: %v", cause), "Failing a request", "requestID", entry.request, "stack", string(debug.Stack()))
	return refuse(http.StatusInternalServerError, "the manager failed, its log says where: request %s", entry.request)
}

// admit says who calls, unless they call too often. A token that is not known
// is counted by the address it comes from, before it is asked about.
func (a *API) admit(ctx context.Context, r *http.Request, e endpoint, entry *entry) (authenticationv1.UserInfo, error) {
	if err := sameOrigin.Check(r); err != nil {
		return authenticationv1.UserInfo{}, refuse(http.StatusForbidden, "cross-origin request rejected: %v", err)
	}
	if a.Access == nil {
		if !a.limits.allow("address "+entry.remote, e.reads) {
			return authenticationv1.UserInfo{}, tooMany()
		}
		return authenticationv1.UserInfo{}, nil
	}
	token := bearerToken(r)
	user, known := a.Access.Known(token)
	if !known {
		if !a.limits.allow("address "+entry.remote, false) {
			return user, tooMany()
		}
		if token == "" {
			return user, refuse(http.StatusUnauthorized, "a bearer token is needed: curl -H \"Authorization: Bearer $(kubectl create token ...)\"")
		}
		var err error
		if user, err = a.Access.Authenticate(ctx, token); err != nil {
			return user, err
		}
	}
	entry.user = user.Username
	if !a.limits.allow("user "+user.Username, e.reads) {
		return user, tooMany()
	}
	return user, nil
}

// sameOrigin refuses what a page of another site makes a browser send: without
// tokens the address of the browser would be all it takes.
var sameOrigin = http.NewCrossOriginProtection()

func tooMany() error {
	return refuse(http.StatusTooManyRequests, "too many requests: wait a second")
}

// readBody reads the whole body before anything is done.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBlueprintBytes))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, refuse(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes", maxBlueprintBytes)
	}
	if err != nil {
		return nil, badRequest("the body could not be read: send the request again")
	}
	return body, nil
}

// part returns a part of the path. What cannot be unescaped is no name, and is
// not found like any other.
func part(r *http.Request, name string) string {
	escaped := mux.Vars(r)[name]
	if unescaped, err := url.PathUnescape(escaped); err == nil {
		return unescaped
	}
	return escaped
}

// answer writes the envelope.
func (a *API) answer(w http.ResponseWriter, entry *entry, content any, err error) {
	answer, status := envelope{Operation: entry.operation, Result: ResultSuccess, Content: content}, http.StatusOK
	if err != nil {
		answer.Result, answer.Content = ResultFailed, nil
		status, answer.Error = failure(err)
	}
	data, err := answer.encode()
	if err != nil {
		status, answer = http.StatusInternalServerError, envelope{Operation: entry.operation, Result: ResultFailed, Error: err.Error()}
		data, _ = answer.encode() // three strings
	}
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	entry.tell(a, status, answer.Error)
	a.send(w, entry, status, data)
}

// send writes an answer; a caller who is gone is told of in the log only.
func (a *API) send(w http.ResponseWriter, entry *entry, status int, data []byte) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(data); err != nil {
		a.Log.V(4).Info("The caller went away", "requestID", entry.request, "cause", err.Error())
	}
}

// tell writes the line of a request.
func (e *entry) tell(a *API, status int, message string) {
	values := []any{"requestID", e.request, "operation", e.operation, "method", bounded(e.method), "path", bounded(e.path), "body", e.body, "user", e.user,
		"remote", e.remote, "userAgent", bounded(e.agent), "status", status, "duration", a.Clock.Since(e.begun)}
	if message != "" {
		values = append(values, "failure", bounded(message))
	}
	a.Log.Info("Answering request", values...)
}

// bounded keeps what a caller sends from filling the log.
func bounded(text string) string {
	if len(text) <= maxLoggedBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxLoggedBytes], "") + "…"
}
