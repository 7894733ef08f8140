package connections

import (
	"io"
	"net"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

const (
	limit = 32
	grace = 100 * time.Millisecond
)

// admitted returns n connections admitted while there was room, and their callers' ends.
func admitted(t *testing.T, b *Bounded, n int) (ours, theirs []net.Conn) {
	t.Helper()
	for range n {
		caller, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c, err := b.Accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = caller.Close(), c.Close() })
		ours, theirs = append(ours, c), append(theirs, caller)
	}
	return ours, theirs
}

func boundedOn(t *testing.T) (*Bounded, *clocktesting.FakeClock) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	b := Bound(l, limit, grace, clock)
	t.Cleanup(func() { _ = b.Close() })
	return b, clock
}

// isOpen reports whether our end still reads what its caller sends.
func isOpen(ours, theirs net.Conn) bool {
	if _, err := io.WriteString(theirs, "x"); err != nil {
		return false
	}
	_, err := ours.Read(make([]byte, 1))
	return err == nil
}

func TestASlowConnectionMakesRoomAfterItsGracePeriod(t *testing.T) {
	b, clock := boundedOn(t)
	ours, theirs := admitted(t, b, limit)
	clock.Step(grace - 1)
	if c, wait := b.admit(nil); c != nil || wait != 1 {
		t.Fatalf("one more is let in (%t), or waits for %s, want 1ns", c != nil, wait)
	}
	clock.Step(1)
	if c, wait := b.admit(nil); c == nil {
		t.Fatalf("one more waits for %s", wait)
	}
	if isOpen(ours[0], theirs[0]) {
		t.Error("the oldest is left")
	}
}

func TestAClientWaitingForTheServerIsNotSlow(t *testing.T) {
	b, clock := boundedOn(t)
	ours, theirs := admitted(t, b, limit)
	if _, err := io.WriteString(theirs[0], "GET / HTTP/1.1\r\n"); err != nil {
		t.Fatal(err)
	}
	for !unread(ours[0].(*Connection).Conn) {
		time.Sleep(time.Millisecond) // until the kernel has delivered it
	}
	clock.Step(grace)
	admitted(t, b, 1)
	if !isOpen(ours[0], theirs[0]) {
		t.Error("the one that has sent something is closed")
	}
	if isOpen(ours[1], theirs[1]) {
		t.Error("the next one, which has sent nothing, is left")
	}
}

// A client that sends requests faster than they are answered always has unread input.
func TestUnreadInputProtectsAConnectionForAWhileOnly(t *testing.T) {
	b, clock := boundedOn(t)
	ours, theirs := admitted(t, b, limit)
	for i := range ours {
		if _, err := io.WriteString(theirs[i], "GET / HTTP/1.1\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		for !unread(ours[i].(*Connection).Conn) {
			time.Sleep(time.Millisecond) // until the kernel has delivered it
		}
	}
	for _, step := range []time.Duration{time.Minute, 5*time.Second - 1} { // it counts from when it is seen to be unread
		clock.Step(step)
		if c, wait := b.admit(nil); c != nil || wait != grace {
			t.Fatalf("after %s one more is let in (%t), or waits for %s, want %s", step, c != nil, wait, grace)
		}
	}
	ours[0].(*Connection).setServed(true) // what is read and answered begins anew
	ours[0].(*Connection).setServed(false)
	clock.Step(1)
	if c, wait := b.admit(nil); c == nil {
		t.Fatalf("one more waits for %s", wait)
	}
	if !isOpen(ours[0], theirs[0]) {
		t.Error("the one that was served is closed")
	}
	if isOpen(ours[1], theirs[1]) {
		t.Error("the oldest one is left")
	}
}

func TestAServedConnectionGetsItsGracePeriodAgain(t *testing.T) {
	b, clock := boundedOn(t)
	ours, _ := admitted(t, b, limit)
	var ends []func()
	for _, c := range ours {
		ends = append(ends, Serve(With(t.Context(), c)))
	}
	clock.Step(grace)
	if c, _ := b.admit(nil); c != nil {
		t.Error("a connection with a request in progress made room for another")
	}
	for _, end := range ends {
		end()
	}
	if c, wait := b.admit(nil); c != nil || wait != grace {
		t.Errorf("one more is let in (%t), or waits for %s, want %s", c != nil, wait, grace)
	}
}
