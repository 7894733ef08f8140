package ota_test

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/topsops/gcu-operator/test/freeport"
)

// link is the network between one agent and the API server: a port that forwards while it
// is up and refuses connections while it is down.
type link struct {
	server  string
	address string

	mu          sync.Mutex
	listener    net.Listener
	connections []net.Conn
	forwarding  sync.WaitGroup
}

// newLink returns a link, initially down, to the API server at host.
func newLink(t *testing.T, host string) *link {
	t.Helper()
	server := host
	if u, err := url.Parse(host); err == nil && u.Host != "" {
		server = u.Host
	}
	address, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	l := &link{server: server, address: address}
	t.Cleanup(func() { l.down(t) })
	return l
}

// config returns config routed through the link.
func (l *link) config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Host = "https://" + l.address
	return config
}

func (l *link) up(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	l.listener = listener
	l.mu.Unlock()
	l.forwarding.Go(func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			l.forward(connection)
		}
	})
}

// forward copies in both directions until either end closes.
func (l *link) forward(near net.Conn) {
	far, err := net.Dial("tcp", l.server)
	if err != nil {
		_ = near.Close()
		return
	}
	l.mu.Lock()
	l.connections = append(l.connections, near, far)
	l.mu.Unlock()
	for _, ends := range [][2]net.Conn{{near, far}, {far, near}} {
		l.forwarding.Go(func() {
			_, _ = io.Copy(ends[0], ends[1])
			_ = ends[0].Close()
		})
	}
}

// down refuses new connections and closes the open ones.
func (l *link) down(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	if l.listener != nil {
		_ = l.listener.Close()
	}
	for _, connection := range l.connections {
		_ = connection.Close()
	}
	l.listener, l.connections = nil, nil
	l.mu.Unlock()
	l.forwarding.Wait()
}
