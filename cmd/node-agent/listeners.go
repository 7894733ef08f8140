//go:build linux

package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/foreign"
	"github.com/topsops/gcu-operator/pkg/journal"
	"github.com/topsops/gcu-operator/pkg/ota/guard"
	"github.com/topsops/gcu-operator/pkg/ota/proof"
)

// openListeners opens the OTA endpoint: TCP, and the socket if configured. inUse returns the
// address of the former while another process uses it. On an error nothing is left open.
func openListeners(s settings, log logr.Logger) (listeners []guard.Listener, inUse func() string, err error) {
	tcp, err := openTCP(s, log)
	if err != nil {
		return nil, nil, err
	}
	port, err := guard.ListenTCP(s.address.String(), clock.RealClock{}, log)
	if err != nil {
		return nil, nil, fmt.Errorf("binding --ota-bind-address: %w", err)
	}
	tcp.Listener = port
	if s.socket == "" {
		return []guard.Listener{tcp}, port.InUse, nil
	}
	socket, err := guard.ListenSocket(s.socket, s.socketGroup)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("listening on --ota-socket: %w", err), port.Close())
	}
	return []guard.Listener{tcp, {Listener: socket, Caller: guard.Peer(s.socketGroup)}}, port.InUse, nil
}

// openTCP returns the rules of TCP, without a listener.
func openTCP(s settings, log logr.Logger) (guard.Listener, error) {
	listener := guard.Listener{Caller: guard.AllowAll, Hosts: foreign.Hosts(s.address.Addr(), s.nodeName)}
	if s.auth == authNone {
		log.Info("Anyone on this node has access to the OTA endpoint, because of --ota-auth=none, including workloads on the host network")
	} else if token, err := guard.Token(s.tokenFile); journal.DiskFails(err) {
		log.Error(err, "There is no token of the OTA endpoint, which serves the socket only until one can be made", "file", s.tokenFile, "socket", s.socket)
		late := &lateToken{file: s.tokenFile, log: log}
		listener.Caller, listener.Prove = late.admit, late.prove
	} else if err != nil {
		return guard.Listener{}, fmt.Errorf("reading --ota-token-file: %w", err)
	} else {
		listener.Caller, listener.Prove = guard.Bearer(token), proof.Prover(token)
	}
	if s.tlsCertFile != "" {
		if _, err := tls.LoadX509KeyPair(s.tlsCertFile, s.tlsKeyFile); err != nil {
			return guard.Listener{}, fmt.Errorf("reading --ota-tls-cert-file and --ota-tls-key-file: %w", err)
		}
		listener.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			certificate, err := tls.LoadX509KeyPair(s.tlsCertFile, s.tlsKeyFile) // reload, as it may have been renewed
			return &certificate, err
		}}
	}
	return listener, nil
}

// lateToken is the token of an agent that could not make or read it when it started, because the disk failed: each request tries again.
type lateToken struct {
	file string
	log  logr.Logger

	mu    sync.Mutex
	token string
}

// get returns the token, or why there is none yet.
func (l *lateToken) get() (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.token != "" {
		return l.token, nil
	}
	token, err := guard.Token(l.file)
	if err != nil {
		return "", err
	}
	l.log.Info("There is a token of the OTA endpoint now", "file", l.file)
	l.token = token
	return token, nil
}

// admit admits requests with the token, none as long as there is none.
func (l *lateToken) admit(r *http.Request) *guard.Denial {
	token, err := l.get()
	if err != nil {
		l.log.V(1).Info("There is no token of the OTA endpoint yet", "cause", err.Error())
		return &guard.Denial{Status: http.StatusUnauthorized, Reason: "Unauthorized",
			Message: "The agent could not make or read the token of this node, its log says why: make room or repair the disk, or use the socket as root."}
	}
	return guard.Bearer(token)(r)
}

// prove proves that the agent has the token, once it has.
func (l *lateToken) prove(challenge, address string) string {
	token, err := l.get()
	if err != nil {
		return ""
	}
	return proof.Of(token, challenge, address)
}
