// Package freeport finds ports for programs that tests start.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync/atomic"
)

// Ports are below the kernel's ephemeral ports, which an outgoing connection could take
// before the program listens, and below node ports.
const first, ports = 20_000, 10_000

var next atomic.Uint32

func init() { next.Store(rand.Uint32N(ports)) }

// Address returns an unused loopback address, a different one each time.
func Address() (string, error) {
	for range ports {
		address := fmt.Sprintf("127.0.0.1:%d", first+next.Add(1)%ports)
		if listener, err := net.Listen("tcp", address); err == nil {
			return address, listener.Close()
		}
	}
	return "", errors.New("no port is free")
}
