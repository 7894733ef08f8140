package harness

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// diesWith is set in the dying process, to the root of its project.
const diesWith = "HARNESS_TEST_DIES_WITH"

func TestMain(m *testing.M) {
	if root := os.Getenv(diesWith); root != "" {
		c := &Cluster{Project: Project{Root: root}, Dir: "the-cluster"}
		if err := c.startGuard(); err != nil {
			panic(err)
		}
		os.Stdout.WriteString("guarded\n")
		time.Sleep(time.Hour) // a select without a case is a deadlock, of which a program dies
	}
	os.Exit(m.Run())
}

// The guard removes the cluster of a process that was killed.
func TestGuardRemovesTheClusterOfADeadProcess(t *testing.T) {
	root := t.TempDir()
	said := filepath.Join(root, "said")
	if err := os.Mkdir(filepath.Join(root, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "bin", "testcluster"), []byte("#!/bin/sh\necho \"$*\" >"+said+".new && mv "+said+".new "+said+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	dying := exec.Command(os.Args[0])
	dying.Env = append(os.Environ(), diesWith+"="+root)
	output, err := dying.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := dying.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(output).ReadString('\n'); err != nil || line != "guarded\n" {
		t.Fatalf("the process printed %q: %v", line, err)
	}
	if _, err := os.Stat(said); err == nil {
		t.Error("the cluster was removed while the process was alive")
	}
	if err := dying.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = dying.Wait() // it was killed
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err = Eventually(ctx, func() error { _, err := os.Stat(said); return err })
	if err != nil {
		t.Fatal(err)
	}
	if args, err := os.ReadFile(said); err != nil || strings.TrimSpace(string(args)) != "down --keep-logs --dir the-cluster" {
		t.Errorf("testcluster was called with %q (%v)", args, err)
	}
}
