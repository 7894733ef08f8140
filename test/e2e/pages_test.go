package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/topsops/gcu-operator/test/handbook"
)

// commandTime limits a run of commands of a page.
const commandTime = 4 * time.Minute

// commands are the commands of a section of a page, which a story runs in their order, and all of them.
type commands struct {
	*stage
	t *testing.T
	// dir is for files, and for programs that are found before all others; in is where the commands run.
	dir, in string
	// names stand in the commands in the place of those of the page.
	names map[string]string
	// left are the blocks that have not run yet.
	left [][]string
}

// pageOf reads the commands of a section of a page. The story fails if it ends before all have run.
func (s *stage) pageOf(t *testing.T, page, title string, names map[string]string) *commands {
	t.Helper()
	sections, err := handbook.Read(s.Project.Root, page)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(sections, func(section handbook.Section) bool { return section.Title == title })
	if at < 0 {
		t.Fatalf("%s has no commands in a section %q", page, title)
	}
	c := &commands{stage: s, t: t, dir: t.TempDir(), names: names, left: sections[at].ToRun()}
	c.in = c.dir
	t.Cleanup(func() {
		if !t.Failed() && len(c.left) > 0 {
			t.Errorf("%s, %q: no one ran %q", page, title, c.left)
		}
	})
	return c
}

// block runs what is left of a block in one shell, and returns what it prints.
func (c *commands) block(ctx context.Context) string {
	c.t.Helper()
	return c.shell(ctx, c.take(-1))
}

// next runs the next command of a block.
func (c *commands) next(ctx context.Context) string {
	c.t.Helper()
	return c.shell(ctx, c.take(1))
}

// shows repeats the next command until what it prints has all words: one of several controllers has yet to tell.
func (c *commands) shows(ctx context.Context, words ...string) {
	c.t.Helper()
	command := c.take(1)
	c.eventually(ctx, c.t, func() error {
		said := c.shell(ctx, command)
		for _, w := range words {
			if !strings.Contains(said, w) {
				return fmt.Errorf("%q is not in what %s prints:\n%s", w, command, said)
			}
		}
		return nil
	})
}

// take removes the next n commands of a block, or those that are left of it.
func (c *commands) take(n int) string {
	c.t.Helper()
	if len(c.left) == 0 {
		c.t.Fatal("the section has no more commands")
	}
	block := c.left[0]
	if n < 0 {
		n = len(block)
	}
	if c.left[0] = block[n:]; len(c.left[0]) == 0 {
		c.left = c.left[1:]
	}
	return strings.Join(block[:n], "\n")
}

// shell runs commands, which must succeed.
func (c *commands) shell(ctx context.Context, text string) string {
	c.t.Helper()
	plugin, err := c.Project.Program("kubectl-gcu")
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	text = handbook.Fill(text, c.names)
	kubectl := c.KubectlCommand(ctx)
	shell := exec.CommandContext(ctx, "sh", "-ec", text)
	shell.Env = slices.Concat(kubectl.Env, []string{"KUBECACHEDIR=" + c.dir, "PATH=" + strings.Join([]string{c.dir, filepath.Dir(plugin), filepath.Dir(kubectl.Path), os.Getenv("PATH")}, ":")})
	shell.Dir = c.in
	var said bytes.Buffer
	shell.Stdout, shell.Stderr = &said, &said
	begin := time.Now()
	defer func() { c.t.Logf("%5.1fs %s", time.Since(begin).Seconds(), text) }()
	if err := shell.Run(); err != nil {
		c.t.Fatalf("%v\n%s\n%s", err, text, said.String())
	}
	return said.String()
}

// says fails unless what a command printed has all words.
func (c *commands) says(said string, words ...string) {
	c.t.Helper()
	for _, w := range words {
		if !strings.Contains(said, w) {
			c.t.Errorf("%q is not in\n%s", w, said)
		}
	}
}

// endless returns what runs in the place of a command that does not end: it prints what that has printed once there is a word in it.
func endless(command, word string) string {
	return command + " >printed 2>&1 & until grep -q " + word + " printed; do sleep 0.1; done; cat printed; "
}

// program puts a shell script in the place of a program.
func (c *commands) program(name, script string) {
	c.t.Helper()
	if err := os.WriteFile(filepath.Join(c.dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		c.t.Fatal(err)
	}
}
