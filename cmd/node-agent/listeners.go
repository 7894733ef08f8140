//go:build linux

package main

import (
	"crypto/tls"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/foreign"
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
	} else {
		token, err := guard.Token(s.tokenFile)
		if err != nil {
			return guard.Listener{}, fmt.Errorf("reading --ota-token-file: %w", err)
		}
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
