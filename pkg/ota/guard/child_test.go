package guard

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/topsops/gcu-operator/test/need"
)

// askAs makes the test program send a request to a socket as another user.
const askAs = "GUARD_TEST_ASK"

func TestMain(m *testing.M) {
	if path := os.Getenv(askAs); path != "" {
		status, err := ask(path)
		fmt.Print(status, " ", err)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// TestAProcessOfAnotherUserIsKeptOff uses a whole process that dropped its privileges
// before it started, not only a thread.
func TestAProcessOfAnotherUserIsKeptOff(t *testing.T) {
	if os.Geteuid() != 0 {
		need.Skip(t, "that processes of other users are kept off the socket needs root")
	}
	path := openSocket(t, strangeGroup)
	if err := os.Chmod(path, 0o666); err != nil { // the file mode alone must not decide
		t.Fatal(err)
	}
	program := filepath.Join(socketDirectory(t), "ask") // the test program lies where only root can read it
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, data, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		credential syscall.Credential
		want       string
	}{
		"root":                              {syscall.Credential{}, "200 <nil>"},
		"another user":                      {syscall.Credential{Uid: strangeUser, Gid: strangeUser}, "403 <nil>"},
		"another user of the group":         {syscall.Credential{Uid: strangeUser, Gid: strangeUser, Groups: []uint32{strangeGroup}}, "200 <nil>"},
		"nobody":                            {syscall.Credential{Uid: 65534, Gid: 65534}, "403 <nil>"},
		"another user in the group of root": {syscall.Credential{Uid: strangeUser, Gid: 0}, "403 <nil>"},
	} {
		command := exec.Command(program)
		command.Env = []string{askAs + "=" + path}
		command.SysProcAttr = &syscall.SysProcAttr{Credential: &test.credential}
		if output, err := command.CombinedOutput(); err != nil || string(output) != test.want {
			t.Errorf("%s is answered with %q (%v), want %q", name, output, err, test.want)
		}
	}
}
