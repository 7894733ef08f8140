package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseStatCountsFieldsAfterTheName(t *testing.T) {
	line := "42 (a) b (c)) S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1000 2\n"
	got, err := parseStat(line)
	if err != nil || got.state != 'S' || got.startTicks != 987654 {
		t.Errorf("got %+v, %v; want state S, start 987654", got, err)
	}
	if _, err := parseStat("42 (short) S 1"); err == nil {
		t.Error("a truncated line is not an error")
	}
}

func run(t *testing.T, script string) *Process {
	t.Helper()
	dir := t.TempDir()
	p, err := Start(Command{Name: "shell", Path: "/bin/sh", Args: []string{"-c", script}, Dir: dir, Log: filepath.Join(dir, "log")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := Stop([]Record{p.Record}, time.Second); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestStopKillsAProcessThatIgnoresSIGTERM(t *testing.T) {
	p := run(t, `trap "" TERM; echo ready; while :; do sleep 0.05; done`)
	for range 100 {
		if data, err := os.ReadFile(p.Log); err == nil && strings.Contains(string(data), "ready") {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if !p.Alive() {
		t.Fatal("the process does not run")
	}
	if err := Stop([]Record{p.Record}, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if p.Alive() {
		t.Error("the process still runs")
	}
}

func TestAnotherProcessWithTheSameIDIsNotOurs(t *testing.T) {
	p := run(t, "sleep 30")
	other := p.Record
	other.StartTicks++
	if other.Alive() {
		t.Error("a process with another start time is reported as alive")
	}
	if err := Stop([]Record{other}, time.Second); err != nil {
		t.Fatal(err)
	}
	if !p.Alive() {
		t.Error("a process of another program was stopped")
	}
}

func TestExitedReturnsTheExitStatus(t *testing.T) {
	p := run(t, "exit 3")
	for range 100 {
		if done, how := p.Exited(); done {
			if how.Error() != "exit status 3" {
				t.Errorf("got %v, want exit status 3", how)
			}
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("Exited did not report the exit")
}

func TestAProcessThatWasKilledIsStartedAgain(t *testing.T) {
	p := run(t, "echo started; sleep 30")
	logged := func(want string) bool {
		for range 500 {
			if data, err := os.ReadFile(p.Log); err == nil && string(data) == want {
				return true
			}
			time.Sleep(20 * time.Millisecond)
		}
		return false
	}
	if !logged("started\n") { // one that is killed before would leave no line
		t.Fatal("the process has logged nothing")
	}
	if _, err := Again(p.Record); err == nil {
		t.Error("a process that runs was started again")
	}
	if err := Kill(p.Record, time.Second); err != nil {
		t.Fatal(err)
	}
	again, err := Again(p.Record)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = Stop([]Record{again.Record}, time.Second) }) // it may have ended
	if !logged("started\nstarted\n") {
		t.Error("the log of the second process does not follow that of the first")
	}
}
