// Package freeport finds ports for programs that are started by tests.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// Ports are below those that the kernel gives to outgoing connections, one of which could
// take a port before the program that is to listen on it, and below node ports.
const first, ports = 20_000, 10_000

var next atomic.Uint32

func init() { next.Store(rand.Uint32N(ports)) }

// Address returns a loopback address that nobody listens on, another one each time.
func Address() (string, error) {
	for range ports {
		address := fmt.Sprintf("127.0.0.1:%d", first+next.Add(1)%ports)
		if listener, err := net.Listen("tcp", address); err == nil {
			return address, listener.Close()
		}
	}
	return "", errors.New("no port is free")
}
