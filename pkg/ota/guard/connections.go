package guard

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/utils/clock"
)

// MaxConnections bounds the open connections of one Door.
const MaxConnections = 32

// grace is how long a connection may take to send an authorized request before another one
// may take its place.
const grace = 100 * time.Millisecond

// bounded is a listener with at most MaxConnections open connections. When it is full, a
// new connection waits for room; it evicts the oldest connection past its grace that is not
// being served and has no unread input.
type bounded struct {
	net.Listener
	clock clock.Clock
	// closed is closed with the listener.
	closed chan struct{}
	once   sync.Once
	// left gets a token when a connection is closed.
	left chan struct{}

	mu   sync.Mutex
	open []*connection // oldest first
}

func newBounded(l net.Listener, c clock.Clock) *bounded {
	return &bounded{Listener: l, clock: c, closed: make(chan struct{}), left: make(chan struct{}, 1)}
}

// connection is a connection accepted by a bounded listener.
type connection struct {
	net.Conn
	owner *bounded
	since time.Time
	// served is true while an authorized request is being answered. Guarded by owner.mu.
	served bool
}

// Accept returns the next connection once there is room for it.
func (b *bounded) Accept() (net.Conn, error) {
	raw, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	for {
		c, wait := b.admit(raw)
		if c != nil {
			return c, nil
		}
		timer := b.clock.NewTimer(wait)
		select {
		case <-b.closed:
			timer.Stop()
			return nil, errors.Join(net.ErrClosed, raw.Close())
		case <-b.left:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// Close closes the listener.
func (b *bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// admit adds a connection, or returns how long to wait before trying again.
func (b *bounded) admit(raw net.Conn) (c *connection, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	if len(b.open) >= MaxConnections {
		oldest := slices.IndexFunc(b.open, func(c *connection) bool { return !c.served && !unread(c.Conn) })
		if oldest < 0 {
			return nil, grace
		}
		if left := b.open[oldest].since.Add(grace).Sub(now); left > 0 {
			return nil, left
		}
		_ = b.open[oldest].Conn.Close() // the server notices on its next read or write
		b.open = slices.Delete(b.open, oldest, oldest+1)
	}
	c = &connection{Conn: raw, owner: b, since: now}
	b.open = append(b.open, c)
	return c, 0
}

// Close closes the connection and makes room.
func (c *connection) Close() error {
	c.owner.mu.Lock()
	c.owner.open = slices.DeleteFunc(c.owner.open, func(other *connection) bool { return other == c })
	c.owner.mu.Unlock()
	select {
	case c.owner.left <- struct{}{}:
	default:
	}
	return c.Conn.Close()
}

// serve marks the connection as served until end is called.
func (c *connection) serve() (end func()) {
	c.setServed(true)
	return func() { c.setServed(false) }
}

// setServed sets served. When a request ends, the connection gets a new grace, so that its
// caller can send another one.
func (c *connection) setServed(served bool) {
	b := c.owner
	b.mu.Lock()
	defer b.mu.Unlock()
	c.served = served
	if i := slices.Index(b.open, c); i >= 0 && !served {
		c.since = b.clock.Now()
		b.open = append(slices.Delete(b.open, i, i+1), c)
	}
}

// unread reports whether a connection has received data that the server has not read yet:
// the server is slow then, not the caller.
func unread(c net.Conn) bool {
	inner, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := inner.SyscallConn()
	if err != nil {
		return false
	}
	waiting := 0
	err = raw.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ); err == nil {
			waiting = n
		}
	})
	return err == nil && waiting > 0
}

type connectionKey struct{}

// withConnection is http.Server.ConnContext.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// connectionOf returns the connection of a request, or nil if it has none.
func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}
