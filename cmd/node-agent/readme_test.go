package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestTheREADMEAndTheHelpNameTheSameFlags: every flag of the agent is in the section of
// the README about it, and every flag that section and the one about OTA name is one.
func TestTheREADMEAndTheHelpNameTheSameFlags(t *testing.T) {
	data, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	agent := section(t, string(data), "## The node agent")
	known := map[string]bool{"help": true, "version": true}
	command := newCommand()
	command.Flags().VisitAll(func(f *pflag.Flag) {
		known[f.Name] = true
		if !strings.Contains(agent, "`--"+f.Name+"`") && f.Name != "v" {
			t.Errorf("the section about the agent does not name --%s", f.Name)
		}
	})
	ota, _, err := command.Find([]string{"ota"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range append([]*cobra.Command{ota}, ota.Commands()...) {
		for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		}
	}
	named := regexp.MustCompile("`--([a-z][a-z-]*)")
	for _, m := range named.FindAllStringSubmatch(agent+section(t, string(data), "## OTA: the node decides"), -1) {
		if !known[m[1]] {
			t.Errorf("the README names --%s, which is no flag", m[1])
		}
	}
}

// section returns a section of a Markdown file, up to the next of its level.
func section(t *testing.T, text, title string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, "\n"+title+"\n")
	if !found {
		t.Fatalf("the README has no section %q", title)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	return rest
}

// TestEveryCommandOfOTASaysHowItIsUsed: help with an example, and completion.
func TestEveryCommandOfOTASaysHowItIsUsed(t *testing.T) {
	for _, name := range []string{"status", "upgrade", "watch", "hold", "release", "rollback"} {
		var stdout, stderr buffer
		if code := run(t.Context(), []string{"ota", name, "--help"}, &stdout, &stderr); code != exitOK ||
			!strings.Contains(stdout.String(), "Examples:\n  node-agent ota "+name) {
			t.Errorf("node-agent ota %s --help: exit code %d, %s%s", name, code, stdout.String(), stderr.String())
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var stdout, stderr buffer
		if code := run(t.Context(), []string{"completion", shell}, &stdout, &stderr); code != exitOK || stdout.String() == "" {
			t.Errorf("completion for %s: exit code %d, %s", shell, code, stderr.String())
		}
	}
}
