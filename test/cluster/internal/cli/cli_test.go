package cli

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

func run(args ...string) (string, error) {
	cmd := New()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

func TestBadInputIsAnErrorWithoutUsage(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"up without a directory":            {[]string{"up", "--nodes", "3"}, "--dir is required"},
		"up with a negative count":          {[]string{"up", "--dir", dir, "--nodes", "-1"}, "--nodes must be from 0"},
		"up with no number":                 {[]string{"up", "--dir", dir, "--nodes", "many"}, `invalid argument "many"`},
		"down without a directory":          {[]string{"down"}, "--dir is required"},
		"down without a cluster":            {[]string{"down", "--dir", dir}, "no cluster is in"},
		"status of a missing directory":     {[]string{"status", "--dir", dir + "/nope"}, "does not exist"},
		"up with fewer than no real nodes":  {[]string{"up", "--dir", dir, "--real-nodes", "-1"}, "--real-nodes must be from 0"},
		"docker on a node that is not real": {[]string{"up", "--dir", dir, "--docker-node", "node-0001"}, "--docker-node must be"},
		"node-exec without a program":       {[]string{"node-exec", "--dir", dir, "real-1"}, "requires at least 2 arg"},
		"load-image without a cluster":      {[]string{"load-image", "--dir", dir, "x.tar"}, "no cluster is in"},
		"build-image without a name":        {[]string{"build-image", "--output", dir + "/x", "a:/b"}, "--tag and --output are required"},
		"build-image with half a file":      {[]string{"build-image", "--tag", "a", "--output", dir + "/x", "a"}, "SOURCE:/DESTINATION"},
		"node-off without a name":           {[]string{"node-off", "--dir", dir}, "requires at least 1 arg"},
		"component-kill without a name":     {[]string{"component-kill", "--dir", dir}, "requires at least 1 arg"},
		"component-start without a cluster": {[]string{"component-start", "--dir", dir, "etcd"}, "no cluster is in"},
		"env without a cluster":             {[]string{"env", "--dir", dir}, "no cluster is in"},
		"kubeconfig without an account":     {[]string{"kubeconfig", "--dir", dir}, "--serviceaccount is required"},
		"kubeconfig with half an account":   {[]string{"kubeconfig", "--dir", dir, "--serviceaccount", "x"}, "must be NAMESPACE/NAME"},
		"a command that is not there":       {[]string{"frobnicate"}, "unknown command"},
		"a flag that is not there":          {[]string{"up", "--frobnicate"}, "unknown flag"},
		"an argument where none is wanted":  {[]string{"down", "x"}, "unknown command"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(test.args...)
			if err == nil || !strings.Contains(err.Error(), test.want) || out != "" {
				t.Errorf("got %v and output %q, want only an error with %q", err, out, test.want)
			}
		})
	}
}

func TestEveryCommandHasHelpWithExamples(t *testing.T) {
	for _, cmd := range New().Commands() {
		if cmd.Example == "" || cmd.Long == "" || cmd.Short == "" {
			t.Errorf("%s has no help", cmd.Name())
		}
	}
}

func TestShellQuoteKeepsAnyPathWhole(t *testing.T) {
	const path = `/tmp/a b/it's $HOME`
	out, err := exec.Command("/bin/sh", "-c", "printf %s "+shellQuote(path)).Output()
	if err != nil || string(out) != path {
		t.Errorf("got %q, %v; want %q", out, err, path)
	}
}
