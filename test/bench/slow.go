package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// slowClients is the number of slow clients, which hold connections and send headers
	// byte by byte.
	slowClients = 1000
	slowByte    = time.Second
	// slowConnectTime is the time over which they connect, one after the other, so that they
	// neither send nor are disconnected at the same moment.
	slowConnectTime = 5 * time.Second
	// slowHangUp is when the unrelated port closes a connection, like the manager.
	slowHangUp = 5 * time.Second
	// slowCommand is the argument that runs this program as slow clients.
	slowCommand = "slow-clients"
)

// slowProcess runs the slow clients in a separate process, so that they do not delay
// the measurement.
type slowProcess struct {
	command *exec.Cmd
	end     io.WriteCloser
	said    strings.Builder
}

// startSlowClients starts them for an address; for "" they use a port of their own
// where nothing reads.
func startSlowClients(address string) (*slowProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	p := &slowProcess{command: exec.Command(self, slowCommand, address)}
	p.command.Stdout, p.command.Stderr = &p.said, os.Stderr
	p.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if p.end, err = p.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting the slow clients: %w", err)
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the slow clients: %w", err)
	}
	return p, nil
}

// stop ends the callers and returns how many connections they had.
func (p *slowProcess) stop() (int, error) {
	_ = p.end.Close() // if it has exited, Wait returns the error
	if err := p.command.Wait(); err != nil {
		return 0, fmt.Errorf("stopping the slow clients: %w", err)
	}
	connections, err := strconv.Atoi(strings.TrimSpace(p.said.String()))
	if err != nil {
		return 0, fmt.Errorf("reading the output of the slow clients: %w", err)
	}
	return connections, nil
}

// runSlowClients is the main function of the slow clients: it runs until the end of its
// input and then prints the number of connections.
func runSlowClients(address string, input io.Reader, out io.Writer) error {
	if address == "" {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("listening for slow clients: %w", err)
		}
		defer listener.Close()
		go hangUp(listener)
		address = listener.Addr().String()
	}
	d := startSlowClientPool(context.Background(), address, slowClients)
	_, _ = io.Copy(io.Discard, input) // until EOF or an error
	_, err := fmt.Fprintln(out, d.stop())
	return err
}

// hangUp accepts connections, reads nothing, and closes each after a while.
func hangUp(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return // closed
		}
		time.AfterFunc(slowHangUp, func() { _ = connection.Close() })
	}
}

// slowClientPool are running slow clients.
type slowClientPool struct {
	cancel    context.CancelFunc
	all       sync.WaitGroup
	connected atomic.Int64
}

// startSlowClientPool starts clients that send a header byte by byte and reconnect when they are
// disconnected.
func startSlowClientPool(ctx context.Context, address string, callers int) *slowClientPool {
	d := &slowClientPool{}
	ctx, d.cancel = context.WithCancel(ctx)
	for i := range callers {
		d.all.Go(func() {
			_ = pause(ctx, slowConnectTime*time.Duration(i)/time.Duration(callers))
			for ctx.Err() == nil {
				if !d.one(ctx, address) {
					_ = pause(ctx, slowByte)
				}
			}
		})
	}
	return d
}

// one makes one connection; it returns false if connecting failed.
func (d *slowClientPool) one(ctx context.Context, address string) bool {
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	defer connection.Close()
	d.connected.Add(1)
	for text := "GET /gum/v1/gr HTTP/1.1\r\nX-Slow: "; ; text = "x" {
		if _, err := io.WriteString(connection, text); err != nil {
			return true
		}
		if pause(ctx, slowByte) != nil {
			return true
		}
	}
}

// stop ends the callers and returns how many connections they had.
func (d *slowClientPool) stop() int {
	d.cancel()
	d.all.Wait()
	return int(d.connected.Load())
}
