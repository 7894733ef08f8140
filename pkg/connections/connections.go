// Package connections bounds the open connections of a server so that clients that only connect, or send
// slowly, keep no others out: the node's endpoint (package ota) and the REST API (package upgradeapi) use it.
// Bodies bounds what they send: to the REST API and the webhook (package admission).
package connections

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

// Bounded is a listener with a bounded number of open connections. When it is full, a
// new connection waits for room; it evicts the oldest connection past its grace that is not
// being served and has no unread input, or has had some for too long. Use Bound.
type Bounded struct {
	net.Listener
	clock clock.Clock
	limit int
	grace time.Duration
	// closed is closed with the listener.
	closed chan struct{}
	once   sync.Once
	// left gets a token when a connection is closed.
	left chan struct{}

	mu   sync.Mutex
	open []*Connection // oldest first
}

// Bound returns a listener with at most limit open connections. Grace is how long a connection may take
// to send a request that is served before another one may take its place.
func Bound(l net.Listener, limit int, grace time.Duration, c clock.Clock) *Bounded {
	return &Bounded{Listener: l, limit: limit, grace: grace, clock: c, closed: make(chan struct{}), left: make(chan struct{}, 1)}
}

// Connection is a connection accepted by a Bounded listener.
type Connection struct {
	net.Conn
	owner *Bounded
	since time.Time
	// served is true while an authorized request is being answered, and unread is since when it was seen to have unread
	// input, without a request served since; zero if it has none. Guarded by owner.mu.
	served bool
	unread time.Time
}

// maxUnread is how long unread input protects a connection: a client that sends requests without waiting for responses
// always has some.
const maxUnread = 5 * time.Second

// isProtected reports whether a connection keeps its place whatever its grace: it is being served, or the server is
// behind with reading it.
func (c *Connection) isProtected(now time.Time) bool {
	switch {
	case c.served:
		return true
	case !unread(c.Conn):
		c.unread = time.Time{}
		return false
	case c.unread.IsZero():
		c.unread = now
	}
	return now.Sub(c.unread) < maxUnread
}

// Accept returns the next connection once there is room for it.
func (b *Bounded) Accept() (net.Conn, error) {
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
func (b *Bounded) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Listener.Close()
}

// admit adds a connection, or returns how long to wait before trying again.
func (b *Bounded) admit(raw net.Conn) (c *Connection, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	if len(b.open) >= b.limit {
		oldest := slices.IndexFunc(b.open, func(c *Connection) bool { return !c.isProtected(now) })
		if oldest < 0 {
			return nil, b.grace
		}
		if left := b.open[oldest].since.Add(b.grace).Sub(now); left > 0 {
			return nil, left
		}
		_ = b.open[oldest].Conn.Close() // the server notices on its next read or write
		b.open = slices.Delete(b.open, oldest, oldest+1)
	}
	c = &Connection{Conn: raw, owner: b, since: now}
	b.open = append(b.open, c)
	return c, 0
}

// Close closes the connection and makes room.
func (c *Connection) Close() error {
	c.owner.mu.Lock()
	c.owner.open = slices.DeleteFunc(c.owner.open, func(other *Connection) bool { return other == c })
	c.owner.mu.Unlock()
	select {
	case c.owner.left <- struct{}{}:
	default:
	}
	return c.Conn.Close()
}

// Serve marks the connection of a request as served until end is called.
func Serve(ctx context.Context) (end func()) {
	c := Of(ctx)
	if c == nil {
		return func() {}
	}
	c.setServed(true)
	return func() { c.setServed(false) }
}

// setServed sets served. When a request ends, the connection gets a new grace, so that its
// caller can send another one.
func (c *Connection) setServed(served bool) {
	b := c.owner
	b.mu.Lock()
	defer b.mu.Unlock()
	c.served, c.unread = served, time.Time{}
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

// With is http.Server.ConnContext.
func With(ctx context.Context, c net.Conn) context.Context {
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	return context.WithValue(ctx, connectionKey{}, c)
}

// Of returns the connection of a request, or nil if it has none.
func Of(ctx context.Context) *Connection {
	c, _ := ctx.Value(connectionKey{}).(*Connection)
	return c
}
