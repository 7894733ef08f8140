package upgradeapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"github.com/topsops/gcu-operator/pkg/connections"
)

const (
	headerTimeout  = 5 * time.Second
	defaultRead    = 10 * time.Second
	idleTimeout    = 60 * time.Second
	drainTimeout   = callTimeout + 2*time.Second
	maxHeaderBytes = 16 << 10
	// maxConnections bounds the memory of connections. Beyond it, those that have sent no authorized
	// request within connectionGrace make room.
	maxConnections  = 4096
	connectionGrace = time.Second
)

// File names of a certificate, as in a Secret of type kubernetes.io/tls.
const (
	certificateFile = "tls.crt"
	keyFile         = "tls.key"
)

// Server serves an API: a Runnable of the manager on every replica.
type Server struct {
	API *API
	// Address to listen on, as net.Listen takes it. Ignored with a Listener.
	Address string
	// Listener to serve on instead; Start closes it.
	Listener net.Listener
	// TLS enables TLS.
	TLS bool
	// CertDir holds tls.crt and tls.key, which are reloaded when they change; "" means Certificate.
	CertDir string
	// Certificate returns the certificate to serve with.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// ReadTimeout is how long sending a request may take, 0 means 10 s; WriteTimeout how
	// long a response may take, except for foreground deletions, 0 means 30 s.
	ReadTimeout, WriteTimeout time.Duration
	// Log gets errors of connections.
	Log logr.Logger

	// connections and grace are other values of maxConnections and connectionGrace, for tests.
	connections int
	grace       time.Duration
	serving     atomic.Bool
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves; the
// leader completes what they accept.
func (*Server) NeedLeaderElection() bool { return false }

// Ready is a readiness check that fails before the port is open and during shutdown.
func (s *Server) Ready(*http.Request) error {
	if !s.serving.Load() {
		return errors.New("the REST API does not serve")
	}
	return nil
}

// Start serves until ctx is done, then drains open requests. It returns an error if it
// cannot serve.
func (s *Server) Start(ctx context.Context) error {
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler:           s.API.Handler(),
		ConnContext:       connections.With,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       cmp.Or(s.ReadTimeout, defaultRead),
		WriteTimeout:      cmp.Or(s.WriteTimeout, responseTimeout),
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(s.Log.V(4)), slog.LevelInfo),
	}
	server.RegisterOnShutdown(s.API.Stop)
	s.Log.Info("Serving the REST API", "address", listener.Addr().String(), "tls", s.TLS, "authentication", s.API.authenticates())
	if !s.API.authenticates() {
		s.Log.Error(nil, "The REST API does not authenticate requests: anyone who can reach the port has the rights of one user, with the blueprints", "user", s.API.Anonymous)
	}
	s.serving.Store(true)
	defer s.serving.Store(false)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving the REST API: %w", err)
	case <-ctx.Done():
	}
	s.serving.Store(false)
	s.Log.Info("Draining the REST API")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	err = server.Shutdown(drain)
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	if err != nil {
		return fmt.Errorf("draining the REST API: %w", err)
	}
	return nil
}

// listen opens the port, with TLS if enabled.
func (s *Server) listen(ctx context.Context) (net.Listener, error) {
	listener := s.Listener
	if listener == nil {
		var err error
		if listener, err = net.Listen("tcp", s.Address); err != nil {
			return nil, fmt.Errorf("listening for the REST API: %w", err)
		}
	}
	listener = connections.Bound(listener, cmp.Or(s.connections, maxConnections), cmp.Or(s.grace, connectionGrace), s.API.Clock)
	if !s.TLS {
		return listener, nil
	}
	config, err := s.certificates(ctx)
	if err != nil {
		_ = listener.Close()
		return nil, err
	}
	return tls.NewListener(listener, config), nil
}

func (s *Server) certificates(ctx context.Context) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CertDir == "" {
		config.GetCertificate = s.Certificate
		return config, nil
	}
	watcher, err := certwatcher.New(filepath.Join(s.CertDir, certificateFile), filepath.Join(s.CertDir, keyFile))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate of the REST API: %w", err)
	}
	config.GetCertificate = watcher.GetCertificate
	go func() {
		if err := watcher.Start(ctx); err != nil {
			s.Log.Error(err, "Watching the certificate of the REST API, it is not read again")
		}
	}()
	return config, nil
}
