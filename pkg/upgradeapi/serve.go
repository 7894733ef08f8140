package upgradeapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/topsops/gcu-operator/pkg/connections"
	"github.com/topsops/gcu-operator/pkg/logging"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// entry is the log line of a request (contract statement 78).
type entry struct {
	operation, route, request, method, path, name, remote, agent, user, body string
	// known is set when the user is authenticated.
	known bool
	begun time.Time
}

// caller is the user, or the address of an unauthenticated caller.
func (e *entry) caller() string {
	if e.known {
		return "user " + e.user
	}
	return "address " + e.remote
}

// middleware handles what all routes share: the request id, authentication, rate limits,
// the body, the response and the log.
type middleware struct {
	*admission
	// anonymous is who all callers are, "" where they are authenticated.
	anonymous string
	// hosts reports whether a Host header names this API; nil accepts all.
	hosts func(host string) bool
	// bodies are those of requests, responses those with content.
	bodies, responses *connections.Bodies
	// cache is notified of writes.
	cache *objectCache
	log   logr.Logger
	clock clock.Clock
	// requests counts answers by operation and code; nil counts none.
	requests *prometheus.CounterVec
}

// requestID matches ids that callers may set.
var requestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

// begin assigns the id of a request: the caller's own if it is valid. Unless the body is read, the
// connection ends with the response, without waiting for the rest.
func (m *middleware) begin(w http.ResponseWriter, r *http.Request, operation string) *entry {
	id := r.Header.Get("X-Request-Id")
	if !requestID.MatchString(id) {
		id = string(uuid.NewUUID())
	}
	w.Header().Set("X-Request-Id", id)
	if r.ContentLength != 0 {
		w.Header().Set("Connection", "close")
	}
	return &entry{operation: operation, route: routeOf(r), request: id, method: r.Method, path: r.URL.RequestURI(), name: part(r, "name"), remote: connections.AddressOf(r),
		agent: r.UserAgent(), begun: m.clock.Now()}
}

// methods dispatches to the endpoint of the method; other methods get 405.
func (m *middleware) methods(of map[string]endpoint) http.Handler {
	var allowed []string
	for method := range of {
		allowed = append(allowed, method)
	}
	slices.Sort(allowed)
	other := m.notAllowed(allowed...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if e, ok := of[r.Method]; ok {
			m.serve(w, r, e)
			return
		}
		other.ServeHTTP(w, r)
	})
}

func (m *middleware) notAllowed(allowed ...string) http.Handler {
	list := strings.Join(allowed, ", ")
	refusing := m.refusing(func(r *http.Request) error {
		return request.Refuse(http.StatusMethodNotAllowed, "method %.20q is not allowed here: use %s", r.Method, list)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", list)
		refusing.ServeHTTP(w, r)
	})
}

// refusing rejects all requests with an error.
func (m *middleware) refusing(why func(*http.Request) error) http.Handler {
	operations := map[string]string{http.MethodPut: OperationUpgrade, http.MethodDelete: OperationDelete}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		operation, ok := operations[r.Method]
		if !ok {
			operation = OperationGet
		}
		entry := m.begin(w, r, operation)
		err := why(r)
		if !m.unauthenticated.allow(entry.remote, true) {
			err = tooMany()
		}
		m.respond(w, entry, nil, err)
	})
}

// document serves a text to all callers.
func (m *middleware) document(contentType string, text []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		entry := m.begin(w, r, OperationGet)
		if !m.unauthenticated.allow(entry.remote, true) {
			m.respond(w, entry, nil, tooMany())
			return
		}
		m.plain(w, entry, contentType, text)
	})
}

// plain sends a text as it is, without an envelope.
func (m *middleware) plain(w http.ResponseWriter, entry *entry, contentType string, text []byte) {
	w.Header().Set("Content-Type", contentType)
	m.logRequest(entry, http.StatusOK, "")
	m.send(w, entry, http.StatusOK, text)
}

// serve runs an endpoint.
func (m *middleware) serve(w http.ResponseWriter, r *http.Request, e endpoint) {
	entry := m.begin(w, r, e.operation)
	content, err := m.run(w, r, e, entry)
	m.respond(w, entry, content, err)
}

// run admits the caller, reads the body and calls the handler. It turns a panic into an
// error, so that the request is answered and logged.
func (m *middleware) run(w http.ResponseWriter, r *http.Request, e endpoint, entry *entry) (content any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			content, err = nil, m.panicked(entry, cause)
		}
	}()
	timeout := e.timeout
	if timeout == 0 {
		timeout = callTimeout
	}
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	c := call{name: entry.name, kind: part(r, "kind"), plan: part(r, "plan"), request: entry.request, deadlines: http.NewResponseController(w)}
	if c.user, err = m.admit(ctx, r, e, entry); err != nil {
		return nil, err
	}
	if c.name != "" && !validName(c.name) { // keep it out of the caches
		return nil, apierrors.NewNotFound(grResource, c.name)
	}
	if err := authorize(ctx, m.access, c, onGr(e.verb, c.name)); err != nil {
		return nil, err
	}
	if c.query, err = queryOf(r.URL); err != nil {
		return nil, err
	}
	body, done, err := readBody(m.bodies, w, r, entry.caller())
	if err != nil {
		return nil, err
	}
	defer done()
	defer connections.Serve(r.Context())() // it has an authorized request: it makes no room for others
	c.body = body
	entry.body = request.Loggable(c.body)
	if !e.reads {
		if c.dryRun, c.flag, err = writeIn(c.query, e.flag); err != nil {
			return nil, err
		}
		logger := m.log.WithValues(logging.GcuResource(c.name, "")...).WithValues("requestID", entry.request, "user", entry.user, "remote", entry.remote)
		ctx = log.IntoContext(ctx, logger)
		if !c.dryRun { // before as well: others may read while a deletion waits
			m.cache.wrote(c.name, timeout)
			defer m.cache.wrote(c.name, 0)
		}
	}
	content, err = e.do(ctx, c)
	return content, ofCaller(err, c.user)
}

// panicked logs a panic and returns the error for the caller.
func (m *middleware) panicked(entry *entry, cause any) error {
	m.log.Error(fmt.Errorf("panic: %v", cause), "Failing a request", "requestID", entry.request, "stack", string(debug.Stack()))
	return request.Refuse(http.StatusInternalServerError, "internal error, see the log of the manager: request %s", entry.request)
}

// admit authenticates the caller and applies the rate limit.
func (m *middleware) admit(ctx context.Context, r *http.Request, e endpoint, entry *entry) (authenticationv1.UserInfo, error) {
	if m.access == nil || m.anonymous != "" {
		if !m.unauthenticated.allow(entry.remote, e.hasRateOfReads()) {
			return authenticationv1.UserInfo{}, tooMany()
		}
		entry.user = m.anonymous
		return Anonymous(m.anonymous), nil
	}
	user, err := m.userOf(ctx, r, e.hasRateOfReads())
	entry.user, entry.known = user.Username, user.Username != ""
	return user, err
}

// Anonymous returns the user that requests without authentication come from: it is in none of the groups
// of those who are authenticated.
func Anonymous(name string) authenticationv1.UserInfo {
	if name == "" {
		return authenticationv1.UserInfo{}
	}
	return authenticationv1.UserInfo{Username: name, Groups: []string{unauthenticated}}
}

// unauthenticated is the group of Kubernetes for those who are not authenticated.
const unauthenticated = "system:unauthenticated"

// native refuses requests that a page of another site sends: by its own name, which leads to this
// address (DNS rebinding), or from its own origin.
func (m *middleware) native(next http.Handler) http.Handler {
	refusing := m.refusing(m.foreign)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.foreign(r) != nil {
			refusing.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// foreign returns why a request may be that of another site's page.
func (m *middleware) foreign(r *http.Request) error {
	if m.hosts != nil && !m.hosts(r.Host) {
		return request.Refuse(http.StatusMisdirectedRequest, "%.80q is not a name of this API: call an IP address, localhost, the name of the Service, or one of --upgrade-api-hosts", r.Host)
	}
	if err := sameOrigin.Check(r); err != nil {
		return request.Refuse(http.StatusForbidden, "cross-origin request rejected: %v", err)
	}
	return nil
}

// sameOrigin rejects cross-origin requests of browsers: without tokens, network access would
// suffice.
var sameOrigin = http.NewCrossOriginProtection()

// part returns a variable of the path, as it is if it cannot be unescaped: it is then not
// found.
func part(r *http.Request, name string) string {
	escaped := mux.Vars(r)[name]
	if unescaped, err := url.PathUnescape(escaped); err == nil {
		return unescaped
	}
	return escaped
}

// respond writes the envelope, or the file that a caller asked for as YAML.
func (m *middleware) respond(w http.ResponseWriter, entry *entry, content any, err error) {
	if text, is := content.(yamlFile); is && err == nil {
		var done func()
		if done, err = roomFor(m.responses, entry.caller(), len(text)); err == nil {
			defer done()
			m.plain(w, entry, contentTypeYAML, []byte(text))
			return
		}
	}
	response, status := envelope{Operation: entry.operation, Result: ResultSuccess, Content: content}, http.StatusOK
	if err != nil {
		response.Result, response.Content = ResultFailed, nil
		status, response.Error = failure(err)
	}
	data, err := response.encode()
	if err == nil && response.Content != nil { // what was changed has none, and is not refused afterwards
		var done func()
		if done, err = roomFor(m.responses, entry.caller(), len(data)); err == nil {
			defer done()
		}
	}
	if err != nil {
		response = envelope{Operation: entry.operation, Result: ResultFailed}
		status, response.Error = failure(err)
		data, _ = response.encode() // strings only
	}
	switch status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	}
	w.Header().Set("Content-Type", "application/json")
	m.logRequest(entry, status, response.Error)
	m.send(w, entry, status, data)
}

// send writes the response; it only logs that a caller has disconnected.
func (m *middleware) send(w http.ResponseWriter, entry *entry, status int, data []byte) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	if _, err := w.Write(data); err != nil { //nolint:gosec // G705: JSON or YAML, which no browser renders: the type is declared and not sniffed
		m.log.V(4).Info("The client disconnected", "requestID", entry.request, "cause", err.Error())
	}
}

// logRequest logs a request, and counts it.
func (m *middleware) logRequest(e *entry, status int, message string) {
	if m.requests != nil {
		m.requests.WithLabelValues(e.operation, e.route, strconv.Itoa(status)).Inc()
	}
	values := []any{"requestID", e.request, "operation", e.operation, "method", bounded(e.method), "path", bounded(e.path), "body", e.body, "user", e.user,
		"remote", e.remote, "userAgent", bounded(e.agent), "status", status, "duration", m.clock.Since(e.begun)}
	if message != "" {
		values = append(values, "failure", bounded(message))
	}
	m.log.Info("Answering request", values...)
}

// bounded truncates text of callers for the log.
func bounded(text string) string {
	if len(text) <= request.MaxLoggedBytes {
		return text
	}
	return strings.ToValidUTF8(text[:request.MaxLoggedBytes], "") + "…"
}
