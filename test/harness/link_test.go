package harness

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// Nothing passes a link that is cut. It arrives when the link is mended, unless connections are reset.
func TestLink(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	link, err := newLink(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	near, err := net.Dial("tcp", link.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	says := func(text string, within time.Duration, want error) {
		t.Helper()
		if err := near.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(near, got); !errors.Is(err, want) || err == nil && string(got) != text {
			t.Errorf("read %q and %v, want %q and %v", got, err, text, want)
		}
	}
	for i, text := range []string{"one", "two", "three"} {
		if i > 0 {
			link.Cut()
		}
		if _, err := io.WriteString(far, text); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			says(text, 50*time.Millisecond, os.ErrDeadlineExceeded)
			link.Mend(i == 2)
		}
		says(text, time.Minute, map[bool]error{true: io.EOF}[i == 2])
	}
}
