package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/go-logr/logr"

	"github.com/topsops/gcu-operator/pkg/ota/guard"
)

// openDoors opens the OTA endpoint: TCP, and the socket if configured. On an error nothing
// is left open.
func openDoors(s settings, log logr.Logger) (doors []guard.Door, err error) {
	tcp, err := openTCP(s, log)
	if err != nil {
		return nil, err
	}
	if s.socket == "" {
		return []guard.Door{tcp}, nil
	}
	socket, err := guard.ListenSocket(s.socket, s.socketGroup)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listening on --ota-socket: %w", err), tcp.Listener.Close())
	}
	return []guard.Door{tcp, {Listener: socket, Caller: guard.Peer(s.socketGroup)}}, nil
}

func openTCP(s settings, log logr.Logger) (guard.Door, error) {
	door := guard.Door{Caller: guard.Anybody, Hosts: guard.Hosts(s.address.Addr(), s.nodeName)}
	if s.auth == authNone {
		log.Info("Everybody on this node may call the OTA endpoint, because of --ota-auth=none: workloads that use the network of the host too")
	} else {
		token, err := guard.Token(s.tokenFile)
		if err != nil {
			return guard.Door{}, fmt.Errorf("reading --ota-token-file: %w", err)
		}
		door.Caller = guard.Bearer(token)
	}
	if s.tlsCertFile != "" {
		if _, err := tls.LoadX509KeyPair(s.tlsCertFile, s.tlsKeyFile); err != nil {
			return guard.Door{}, fmt.Errorf("reading --ota-tls-cert-file and --ota-tls-key-file: %w", err)
		}
		door.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			certificate, err := tls.LoadX509KeyPair(s.tlsCertFile, s.tlsKeyFile) // reload, as it may have been renewed
			return &certificate, err
		}}
	}
	var err error
	if door.Listener, err = net.Listen("tcp", s.address.String()); err != nil {
		return guard.Door{}, fmt.Errorf("binding --ota-bind-address: %w", err)
	}
	return door, nil
}
