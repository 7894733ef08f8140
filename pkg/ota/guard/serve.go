package guard

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/connections"
	"github.com/topsops/gcu-operator/pkg/ota/proof"
)

const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	// WriteTimeout is the time to write a response, measured from the end of the request's
	// header. A handler that waits longer sets its own deadline.
	WriteTimeout   = 30 * time.Second
	idleTimeout    = 60 * time.Second
	maxHeaderBytes = 16 << 10
)

// MaxConnections bounds the open connections of one Listener.
const MaxConnections = 32

// grace is how long a connection may take to send an authorized request before another one
// may take its place.
const grace = 100 * time.Millisecond

// Caller returns why the sender of a request may not call, or nil if it may.
type Caller func(r *http.Request) *Denial

// AllowAll allows every request.
func AllowAll(*http.Request) *Denial { return nil }

// Denial is why a request is rejected before it reaches the handler.
type Denial struct {
	// Status is the HTTP status.
	Status int
	// Reason is one word.
	Reason string
	// Message states what the caller can do.
	Message string
}

// Listener is one way to reach the endpoint: where it listens, and the rules for requests there.
type Listener struct {
	Listener net.Listener
	// TLS is the TLS configuration, nil for plain connections.
	TLS *tls.Config
	// Caller authenticates requests.
	Caller Caller
	// Hosts reports whether a Host header names this endpoint; nil accepts all.
	Hosts func(host string) bool
	// Prove answers a challenge, so that clients know who listens at an address; nil for none.
	Prove func(challenge, address string) string
}

// Options of Serve. All fields are required.
type Options struct {
	Listeners []Listener
	// Handler serves requests that were admitted.
	Handler http.Handler
	// Deny writes the response to a rejected request.
	Deny func(w http.ResponseWriter, r *http.Request, d *Denial)
	// DrainTimeout is how long requests in progress may take to finish after ctx is done.
	DrainTimeout time.Duration
	Clock        clock.Clock
	Log          logr.Logger
}

// Serve serves all listeners until ctx is done, lets requests in progress finish, and closes
// them. It returns nil after such a shutdown, and an error if one could not be
// served or drained.
func Serve(ctx context.Context, o Options) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := make([]error, len(o.Listeners))
	var serving sync.WaitGroup
	for i, listener := range o.Listeners {
		serving.Go(func() {
			defer stop()
			failed[i] = o.serve(ctx, listener)
		})
	}
	serving.Wait()
	return errors.Join(failed...)
}

func (o Options) serve(ctx context.Context, l Listener) error {
	var protocols http.Protocols
	protocols.SetHTTP1(true) // HTTP/1 only: one request at a time per connection
	server := &http.Server{
		Handler:           o.check(l),
		ConnContext:       connections.With,
		Protocols:         &protocols,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      WriteTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(o.Log.V(4)), slog.LevelInfo),
	}
	var listener net.Listener = connections.Bound(l.Listener, MaxConnections, grace, o.Clock)
	if l.TLS != nil {
		listener = tls.NewListener(listener, l.TLS)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving the OTA endpoint at %s: %w", l.Listener.Addr(), err)
	case <-ctx.Done():
	}
	o.Log.Info("Draining the OTA endpoint", "listener", l.Listener.Addr().String())
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.DrainTimeout)
	defer cancel()
	err := server.Shutdown(drain)
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	if err != nil {
		return fmt.Errorf("draining the OTA endpoint at %s: %w", l.Listener.Addr(), err)
	}
	return nil
}

// check passes requests that are admitted to the handler.
func (o Options) check(l Listener) http.Handler {
	origin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		denial := l.deny(r, origin)
		if denial != nil {
			o.Log.V(1).Info("Refusing", "status", denial.Status, "reason", denial.Reason, "remote", r.RemoteAddr, "path", r.URL.Path)
			w.Header().Set("Connection", "close")
			if denial.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", "Bearer")
			}
			o.Deny(w, r, denial)
			return
		}
		if open(r) {
			l.prove(w, r)
		} else {
			defer connections.Serve(r.Context())()
		}
		o.Handler.ServeHTTP(w, r)
	})
}

// deny returns why a request is rejected before the handler, or nil if it is admitted.
func (l Listener) deny(r *http.Request, origin *http.CrossOriginProtection) *Denial {
	if l.Hosts != nil && !l.Hosts(r.Host) {
		return &Denial{Status: http.StatusMisdirectedRequest, Reason: "MisdirectedRequest",
			Message: fmt.Sprintf("%.80q is not a name of this endpoint: call localhost, or the address that it is bound to.", r.Host)}
	}
	if err := origin.Check(r); err != nil {
		return &Denial{Status: http.StatusForbidden, Reason: "CrossOrigin",
			Message: "Cross-origin requests are rejected."}
	}
	if open(r) {
		return nil
	}
	return l.Caller(r)
}

// prove answers the challenge of a request.
func (l Listener) prove(w http.ResponseWriter, r *http.Request) {
	challenge := r.Header.Get(proof.ChallengeHeader)
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if l.Prove != nil && ok && challenge != "" && len(challenge) <= proof.MaxChallenge {
		w.Header().Set(proof.Header, l.Prove(challenge, local.String()))
	}
}

// open reports whether a request needs no authentication.
func open(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == "/healthz"
}
