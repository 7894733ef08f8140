package guard

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/test/need"
)

func TestATokenIsMadeOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "ota-token")
	tokens := make([]string, 8)
	var made sync.WaitGroup
	for i := range tokens {
		made.Go(func() {
			token, err := Token(path)
			if err != nil {
				t.Errorf("token: %v", err)
			}
			tokens[i] = token
		})
	}
	made.Wait()
	for _, token := range tokens {
		if token != tokens[0] || len(token) != 2*tokenBytes {
			t.Errorf("tokens %q", tokens)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v, %v", info.Mode(), err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("the directory holds %v", left)
	}
}

func TestATokenFileThatIsNotSafeIsRefused(t *testing.T) {
	for says, make := range map[string]func(path string) error{
		"others than its owner": func(p string) error { return os.WriteFile(p, []byte(testToken), 0o644) },
		"less than 32":          func(p string) error { return os.WriteFile(p, []byte("short\n"), 0o600) },
		"larger than":           func(p string) error { return os.WriteFile(p, []byte(strings.Repeat("x", 5000)), 0o600) },
		"not a regular file":    func(p string) error { return os.Symlink("/etc/hostname", p) },
		"belongs to user 1,": func(p string) error {
			if err := os.WriteFile(p, []byte(testToken), 0o600); err != nil {
				return err
			}
			return os.Chown(p, 1, -1)
		},
	} {
		path := filepath.Join(t.TempDir(), "token")
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if token, err := Token(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("want an error with %q: %q, %v", says, token, err)
		}
	}
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(testToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if token, err := Token(path); token != testToken || err != nil {
		t.Errorf("a token that somebody else has put there: %q, %v", token, err)
	}
}

// A user and a group that nothing else uses.
const (
	strangeUser  = 65533
	strangeGroup = 65532
)

// as runs f on a thread of another user, which exits afterwards.
func as(t *testing.T, uid, gid int, groups []uint32, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		need.Skip(t, "that other users are kept off the socket needs root")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked, so that the thread exits
		var first uintptr
		if len(groups) > 0 {
			first = addressOf(groups)
		}
		for _, call := range [][3]uintptr{
			{syscall.SYS_SETGROUPS, uintptr(len(groups)), first},
			{syscall.SYS_SETREGID, uintptr(gid), uintptr(gid)},
			{syscall.SYS_SETREUID, uintptr(uid), uintptr(uid)},
		} {
			if _, _, errno := syscall.RawSyscall(call[0], call[1], call[2], 0); errno != 0 {
				t.Errorf("becoming user %d: %v", uid, errno)
				return
			}
		}
		runtime.KeepAlive(groups)
		f()
	}()
	<-done
}

// ask sends a request over a new connection to a socket.
func ask(path string) (status string, err error) {
	c, err := net.Dial("unix", path)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: anything\r\nConnection: close\r\n\r\n")); err != nil {
		return "", err
	}
	line := make([]byte, 12)
	_, err = c.Read(line)
	return strings.TrimPrefix(string(line), "HTTP/1.1 "), err
}

// socketDirectory returns a directory that every user can enter.
func socketDirectory(t *testing.T) string {
	t.Helper()
	directory, err := os.MkdirTemp("", "gcu-socket-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	if err := os.Chmod(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	return directory
}

func openSocket(t *testing.T, group int) (path string) {
	t.Helper()
	path = filepath.Join(socketDirectory(t), "ota.sock")
	listener, err := ListenSocket(path, group)
	if err != nil {
		t.Fatal(err)
	}
	serveListener(t, clock.RealClock{}, Listener{Listener: listener, Caller: Peer(group)}, hello)
	return path
}

func TestTheSocketIsForRoot(t *testing.T) {
	path := openSocket(t, NoGroup)
	if status, err := ask(path); status != "200" || err != nil {
		t.Errorf("root is answered with %q, %v", status, err)
	}
	as(t, strangeUser, strangeGroup, nil, func() {
		if status, err := ask(path); err == nil {
			t.Errorf("another user got through, and was answered with %q", status)
		}
	})
	// With a mode open to all, the kernel's credentials still decide.
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	as(t, strangeUser, 0, nil, func() {
		if status, _ := ask(path); status != "403" {
			t.Errorf("another user in the group of root is answered with %q, want 403", status)
		}
	})
}

func TestTheSocketIsForAGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "that a group may use the socket needs root")
	}
	path := openSocket(t, strangeGroup)
	for name, test := range map[string]struct {
		gid    int
		groups []uint32
		status string
	}{
		"a user whose first group it is": {strangeGroup, nil, "200"},
		"a user who is a member":         {strangeUser, []uint32{7, strangeGroup}, "200"},
		"a user of another group":        {strangeUser, []uint32{7}, ""},
	} {
		as(t, strangeUser, test.gid, test.groups, func() {
			if status, err := ask(path); status != test.status {
				t.Errorf("%s is answered with %q, %v, want %q", name, status, err, test.status)
			}
		})
	}
}

func TestAMemberOfManyGroupsIsAMember(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "that a group may use the socket needs root")
	}
	path := openSocket(t, strangeGroup)
	groups := []uint32{strangeGroup}
	for i := range uint32(200) {
		groups = append(groups, 1000+i)
	}
	as(t, strangeUser, strangeUser, groups, func() {
		if status, err := ask(path); status != "200" {
			t.Errorf("answered with %q, %v", status, err)
		}
	})
}

func TestTheSocketOfADeadAgentIsReplaced(t *testing.T) {
	path := filepath.Join(socketDirectory(t), "run", "ota.sock")
	dead, err := ListenSocket(path, NoGroup)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ListenSocket(path, NoGroup); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("a second agent: %v", err)
	}
	_ = dead.(*socket).Listener.Close() // like a kill: the file stays
	next, err := ListenSocket(path, NoGroup)
	if err != nil {
		t.Fatal(err)
	}
	_ = dead.Close()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the end of the first agent took the socket of the next away: %v", err)
	}
	_ = next.Close()
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("%v is left", left)
	}
}

func TestWithoutAConnectionThereIsNoPeer(t *testing.T) {
	r, err := http.NewRequest(http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if denial := Peer(NoGroup)(r); denial == nil || denial.Status != http.StatusForbidden {
		t.Errorf("denial %+v", denial)
	}
}

func addressOf(groups []uint32) uintptr { return uintptr(unsafe.Pointer(&groups[0])) }
