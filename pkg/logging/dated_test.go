package logging

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestContract55RestartLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "topscloud", "gcu-operator", "restart-docker.log")
	now := time.Date(2023, 5, 24, 10, 3, 19, 0, time.UTC)
	log := NewDated(path, func() time.Time { return now }, func(err error) { t.Error(err) })
	log.Printf("Host %s docker default runtime is enflame, need not restart", "10.12.110.166")
	now = time.Date(2023, 6, 1, 9, 0, 0, 0, time.UTC)
	log.Printf("failed: %s", "first\nsecond")
	want := []string{
		"[Wed May 24 10:03:19 UTC 2023] Host 10.12.110.166 docker default runtime is enflame, need not restart",
		`[Thu Jun  1 09:00:00 UTC 2023] failed: first\nsecond`,
	}
	if diff := cmp.Diff(want, linesOf(t, path)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o444 == 0 {
		t.Errorf("the file is not for people to read: %v %v", info, err)
	}
	var none *Dated
	none.Printf("nowhere")
}
