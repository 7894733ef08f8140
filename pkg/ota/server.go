package ota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/go-logr/logr"
)

const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = 60 * time.Second
	// drainTimeout is longer than any request may take.
	drainTimeout   = callTimeout + 2*time.Second
	maxHeaderBytes = 16 << 10
)

// LoopbackAddress parses the address the endpoint binds to, "ip:port" or
// "localhost:port". It returns an error for anything but a loopback address:
// the endpoint does not ask who calls, so only this node may reach it.
func LoopbackAddress(address string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is not ip:port, for example 127.0.0.1:10267", address)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q has no port from 0 to 65535", address)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.IsLoopback() {
		return netip.AddrPort{}, fmt.Errorf("%q is not a loopback address: the endpoint has no authentication, so it binds to 127.0.0.1 or [::1] only", address)
	}
	return netip.AddrPortFrom(ip, uint16(number)), nil
}

// Serve answers requests on the listener until ctx is done, lets those that
// are under way finish, and closes the listener. It returns nil after such an
// end and an error when it could not serve.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log logr.Logger) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(logr.ToSlogHandler(log.V(1)), slog.LevelInfo),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serving the OTA endpoint: %w", err)
	case <-ctx.Done():
	}
	log.Info("Draining the OTA endpoint")
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	err := server.Shutdown(drain)
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	if err != nil {
		return fmt.Errorf("draining the OTA endpoint: %w", err)
	}
	return nil
}
