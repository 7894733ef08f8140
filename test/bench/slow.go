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
	// slowCallers hold connections and send a byte of a header now and then.
	slowCallers = 1000
	slowByte    = time.Second
	// slowArrive is how long they take to come, one after the other: they do not know
	// of each other, so that they neither send nor are hung up on at the same moment.
	slowArrive = 5 * time.Second
	// slowHangUp is when the port of nobody ends a connection, as the manager does.
	slowHangUp = 5 * time.Second
	// slowCommand makes this program the slow callers.
	slowCommand = "slow-callers"
)

// slowProcess is the slow callers in a process of their own: they are not to keep
// those waiting who measure.
type slowProcess struct {
	command *exec.Cmd
	end     io.WriteCloser
	said    strings.Builder
}

// startSlowCallers starts them at an address, "" is a port of theirs where nobody reads.
func startSlowCallers(address string) (*slowProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("finding this program: %w", err)
	}
	p := &slowProcess{command: exec.Command(self, slowCommand, address)}
	p.command.Stdout, p.command.Stderr = &p.said, os.Stderr
	p.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if p.end, err = p.command.StdinPipe(); err != nil {
		return nil, fmt.Errorf("starting the slow callers: %w", err)
	}
	if err := p.command.Start(); err != nil {
		return nil, fmt.Errorf("starting the slow callers: %w", err)
	}
	return p, nil
}

// stop ends the callers and returns how many connections they had.
func (p *slowProcess) stop() (int, error) {
	_ = p.end.Close() // gone already: then Wait tells
	if err := p.command.Wait(); err != nil {
		return 0, fmt.Errorf("ending the slow callers: %w", err)
	}
	connections, err := strconv.Atoi(strings.TrimSpace(p.said.String()))
	if err != nil {
		return 0, fmt.Errorf("reading what the slow callers said: %w", err)
	}
	return connections, nil
}

// callSlowly is the program of the slow callers: it ends with its input and then
// prints the number of connections.
func callSlowly(address string, input io.Reader, out io.Writer) error {
	if address == "" {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("listening for slow callers: %w", err)
		}
		defer listener.Close()
		go hangUp(listener)
		address = listener.Addr().String()
	}
	d := dribble(context.Background(), address, slowCallers)
	_, _ = io.Copy(io.Discard, input) // until it ends, whichever way
	_, err := fmt.Fprintln(out, d.stop())
	return err
}

// hangUp lets callers in, reads nothing, and ends each connection after a while.
func hangUp(listener net.Listener) {
	for {
		connection, err := listener.Accept()
		if err != nil {
			return // closed
		}
		time.AfterFunc(slowHangUp, func() { _ = connection.Close() })
	}
}

// dribbling are callers who send slowly.
type dribbling struct {
	cancel    context.CancelFunc
	all       sync.WaitGroup
	connected atomic.Int64
}

// dribble starts callers who send a header byte by byte, and come again when
// they are hung up on.
func dribble(ctx context.Context, address string, callers int) *dribbling {
	d := &dribbling{}
	ctx, d.cancel = context.WithCancel(ctx)
	for i := range callers {
		d.all.Go(func() {
			_ = pause(ctx, slowArrive*time.Duration(i)/time.Duration(callers))
			for ctx.Err() == nil {
				if !d.one(ctx, address) {
					_ = pause(ctx, slowByte)
				}
			}
		})
	}
	return d
}

// one is one connection; false when there was none.
func (d *dribbling) one(ctx context.Context, address string) bool {
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
func (d *dribbling) stop() int {
	d.cancel()
	d.all.Wait()
	return int(d.connected.Load())
}
