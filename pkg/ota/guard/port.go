package guard

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// portRetry is the time between two attempts to listen on an address.
const portRetry = 5 * time.Second

// Port is a TCP listener that waits for its address: anyone on the node may take a port, and the node may
// get an address later, which must not stop the agent. While it waits it has no connections.
type Port struct {
	address string
	clock   clock.Clock
	log     logr.Logger
	// closed is closed with the listener.
	closed chan struct{}

	mu sync.Mutex
	// inner is nil while the address cannot be used.
	inner net.Listener
	// waitsFor is why the last attempt to listen failed.
	waitsFor error
	ended    bool
}

// ListenTCP listens on an address, ip:port. An address that another process uses, or that the node does not have, is no error:
// listening is retried every few seconds. Any other failure is an error.
func ListenTCP(address string, c clock.Clock, log logr.Logger) (*Port, error) {
	p := &Port{address: address, clock: c, log: log, closed: make(chan struct{})}
	var err error
	p.inner, err = net.Listen("tcp", address)
	p.waitsFor = err
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		log.Error(err, "Another process uses the address of the OTA endpoint, serving the socket only until it is free", "address", address)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		log.Error(err, "This node does not have the address of the OTA endpoint, serving the socket only until it has", "address", address)
	case err != nil:
		return nil, fmt.Errorf("listening on %s: %w", address, err)
	}
	return p, nil
}

// InUse returns the address while another process uses it, "" otherwise.
func (p *Port) InUse() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if errors.Is(p.waitsFor, syscall.EADDRINUSE) {
		return p.address
	}
	return ""
}

// Accept returns the next connection, once the address can be used.
func (p *Port) Accept() (net.Conn, error) {
	for {
		inner, err := p.listener()
		if err != nil {
			return nil, err
		}
		if inner != nil {
			return inner.Accept()
		}
		timer := p.clock.NewTimer(portRetry)
		select {
		case <-p.closed:
		case <-timer.C():
			p.retry()
		}
		timer.Stop()
	}
}

// listener returns the listener, nil while the address cannot be used.
func (p *Port) listener() (net.Listener, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil, net.ErrClosed
	}
	return p.inner, nil
}

// retry listens if the address can be used by now.
func (p *Port) retry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	inner, err := net.Listen("tcp", p.address)
	p.waitsFor = err
	switch {
	case err != nil:
		p.log.V(4).Info("Cannot listen on the address of the OTA endpoint yet", "address", p.address, "cause", err.Error())
	case p.ended:
		_ = inner.Close()
	default:
		p.inner = inner
		p.log.Info("Serving the OTA endpoint over TCP, its address can be used now", "address", p.address)
	}
}

// Close closes the listener.
func (p *Port) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil
	}
	p.ended = true
	close(p.closed)
	if p.inner == nil {
		return nil
	}
	return p.inner.Close()
}

// Addr returns the address.
func (p *Port) Addr() net.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inner != nil {
		return p.inner.Addr()
	}
	return unboundAddr(p.address)
}

// unboundAddr is an address that is not listened on.
type unboundAddr string

// Network implements net.Addr.
func (unboundAddr) Network() string { return "tcp" }

func (a unboundAddr) String() string { return string(a) }
