package harness

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"sync"

	"k8s.io/client-go/tools/clientcmd"
)

// Link is what a program's connections to the API server run through. It can be cut.
type Link struct {
	listener net.Listener
	to       string

	mu sync.Mutex
	// mended is closed at the end of the cut; nil unless the link is cut.
	mended chan struct{}
	ends   map[net.Conn]bool
}

// ManagerLink returns a link for one manager, and a kubeconfig that goes through it.
func (c *Cluster) ManagerLink(ctx context.Context, name string) (link *Link, kubeconfig string, err error) {
	account, err := c.ServiceAccountKubeconfig(ctx, ManagerAccount, "")
	if err != nil {
		return nil, "", err
	}
	config, err := clientcmd.LoadFromFile(account)
	if err != nil {
		return nil, "", fmt.Errorf("reading %s: %w", account, err)
	}
	server, err := url.Parse(c.Config.Host)
	if err != nil {
		return nil, "", fmt.Errorf("finding the API server: %w", err)
	}
	if link, err = newLink(server.Host); err != nil {
		return nil, "", err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + link.listener.Addr().String()
	}
	kubeconfig = filepath.Join(c.Dir, name+".kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		link.Close()
		return nil, "", fmt.Errorf("writing %s: %w", kubeconfig, err)
	}
	return link, kubeconfig, nil
}

// newLink returns a link to an address, which must be closed.
func newLink(to string) (*Link, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listening for a link to %s: %w", to, err)
	}
	l := &Link{listener: listener, to: to, ends: map[net.Conn]bool{}}
	go l.serve()
	return l, nil
}

func (l *Link) serve() {
	for {
		near, err := l.listener.Accept()
		if err != nil {
			return // closed
		}
		go func() {
			l.pass()
			far, err := net.Dial("tcp", l.to)
			if err != nil {
				_ = near.Close() // the program dials again
				return
			}
			l.add(near, far)
			go l.carry(near, far)
			l.carry(far, near)
		}()
	}
}

// carry copies what comes from one end to the other until one of them is closed.
func (l *Link) carry(from, to net.Conn) {
	defer l.remove(from, to)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		l.pass()
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// pass returns when the link is not cut.
func (l *Link) pass() {
	l.mu.Lock()
	mended := l.mended
	l.mu.Unlock()
	if mended != nil {
		<-mended
	}
}

// Cut lets nothing pass until Mend, as a cable that is unplugged: neither end is told.
func (l *Link) Cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mended == nil {
		l.mended = make(chan struct{})
	}
}

// Mend ends a cut. What was sent meanwhile arrives, unless the connections are reset.
func (l *Link) Mend(reset bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if reset {
		for end := range l.ends {
			_ = end.Close()
		}
	}
	if l.mended != nil {
		close(l.mended)
		l.mended = nil
	}
}

// Close ends the link and its connections.
func (l *Link) Close() {
	_ = l.listener.Close()
	l.Mend(true)
}

func (l *Link) add(ends ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, end := range ends {
		l.ends[end] = true
	}
}

func (l *Link) remove(ends ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, end := range ends {
		_ = end.Close()
		delete(l.ends, end)
	}
}
