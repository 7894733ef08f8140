package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/topsops/gcu-operator/test/apiserver"
)

// commands returns all commands, including groups.
func commands(t *testing.T) []*cobra.Command {
	t.Helper()
	var all []*cobra.Command
	var add func(*cobra.Command)
	add = func(c *cobra.Command) {
		all = append(all, c)
		for _, child := range c.Commands() {
			add(child)
		}
	}
	add(newRoot(genericiooptions.NewTestIOStreamsDiscard()))
	if len(all) < 15 {
		t.Fatalf("there are only %d commands", len(all))
	}
	return all
}

func TestEveryCommandHasHelpThatReadsWell(t *testing.T) {
	for _, c := range commands(t) {
		t.Run(c.CommandPath(), func(t *testing.T) {
			if c.Short == "" || strings.HasSuffix(c.Short, ".") || len(c.Short) > 75 || strings.ToUpper(c.Short[:1]) != c.Short[:1] {
				t.Errorf("Short is %q", c.Short)
			}
			if len(c.Long) < len(c.Short) || !strings.Contains(c.Long, ".") {
				t.Errorf("Long is %q", c.Long)
			}
			for _, line := range strings.Split(c.Long+"\n"+c.Example, "\n") {
				if len([]rune(line)) > 100 || strings.HasSuffix(line, " ") || strings.Contains(line, "\t") {
					t.Errorf("this line does not fit a terminal: %q", line)
				}
			}
			for _, line := range strings.Split(c.Example, "\n") {
				if line != "" && !strings.HasPrefix(line, "  ") {
					t.Errorf("an example is not indented: %q", line)
				}
			}
			if !strings.Contains(c.Example, "kubectl gcu") {
				t.Errorf("Example is %q", c.Example)
			}
			for _, sibling := range c.Commands() {
				if !sibling.Runnable() && !sibling.HasSubCommands() {
					t.Errorf("%s does nothing", sibling.Name())
				}
			}
		})
	}
}

// Commands in examples and advice exist.
func TestTheVersionIsAFlagToo(t *testing.T) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	root := newRoot(streams)
	root.SetArgs([]string{"--version"})
	if err := root.Execute(); err != nil || out.String() != "kubectl gcu version dev\n" {
		t.Errorf("it says %q, %v", out.String(), err)
	}
}

func TestExamplesAreCommandsThatThereAre(t *testing.T) {
	known := map[string]bool{}
	for _, c := range commands(t) {
		known[c.Name()] = true
	}
	mention := regexp.MustCompile(`kubectl gcu ([a-z-]+)`)
	texts := []string{}
	for _, c := range commands(t) {
		texts = append(texts, c.Long, c.Example)
	}
	advice, err := os.ReadFile(filepath.Join("..", "..", "pkg", "gcucli", "display", "advice.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range append(texts, string(advice)) {
		for _, m := range mention.FindAllStringSubmatch(text, -1) {
			if !known[m[1]] {
				t.Errorf("there is no kubectl gcu %s", m[1])
			}
		}
	}
}

func TestUsageErrorsHaveTheirCode(t *testing.T) {
	for _, line := range []string{
		"status --what", "nothing", "task retry node-1", "upgrade", "status a b", "nodes --state shiny", "abort",
		"version --client -o xml", "import testdata/missing.yaml", "status -w -o json", "upgrade -f testdata/missing.yaml", "upgrade a --nodes=", "upgrade a --components=",
		"upgrade a --all=false", // no limit is asked for, so none is removed
	} {
		var out, errOut bytes.Buffer
		args := append(strings.Fields(line), "--kubeconfig", apiserver.KubeconfigOf(t, &rest.Config{Host: "http://127.0.0.1:1"}))
		if code := run(t.Context(), args, strings.NewReader(""), &out, &errOut); code != exitUsage || strings.Count(errOut.String(), "\n") != 1 {
			t.Errorf("%s: exit code %d, says %q", line, code, errOut.String())
		}
	}
}

func TestAnAPIServerThatIsNotThereIsAnError(t *testing.T) {
	var out, errOut bytes.Buffer
	args := []string{"status", "--kubeconfig", apiserver.KubeconfigOf(t, &rest.Config{Host: "http://127.0.0.1:1"}), "--cache-dir", t.TempDir()}
	if code := run(t.Context(), args, strings.NewReader(""), &out, &errOut); code != exitFailed || !strings.Contains(errOut.String(), "127.0.0.1:1") {
		t.Errorf("exit code %d, says %q", code, errOut.String())
	}
}

func TestCtrlCHasItsCode(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, errOut bytes.Buffer
	args := []string{"status", "--kubeconfig", apiserver.KubeconfigOf(t, &rest.Config{Host: "http://127.0.0.1:1"}), "--cache-dir", t.TempDir()}
	if code := run(ctx, args, strings.NewReader(""), &out, &errOut); code != exitInterrupted {
		t.Errorf("exit code %d, says %q", code, errOut.String())
	}
}

func TestImportPrintsTheResultAndReportsTheRest(t *testing.T) {
	var out, errOut bytes.Buffer
	in := `{"apiVersion": "topscloud.enflame.com/v1", "kind": "GcuResource", "metadata": {"name": "a"}, "spec": {"gcuExporter": {"version": "1"}, "nodeExporter": {}}}`
	if code := run(t.Context(), []string{"import", "-"}, strings.NewReader(in), &out, &errOut); code != exitOK {
		t.Fatalf("exit code %d, says %q", code, errOut.String())
	}
	if !strings.Contains(out.String(), "topsops.enflame.com/v1") || strings.Contains(out.String(), "lost") || !strings.Contains(errOut.String(), "lost: spec.nodeExporter: ") {
		t.Errorf("prints\n%s\nand tells\n%s", out.String(), errOut.String())
	}
}

// A release fills in its tag, and the address and the checksum of each archive.
func TestTheKrewManifestIsOneWhenAReleaseFillsItIn(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", ".krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`\{\{addURIAndSha "(.*)" \.TagName \}\}`).ReplaceAllString(string(data), "uri: $1\n      sha256: abcd")
	text = strings.ReplaceAll(text, "{{ .TagName }}", "v1.2.3")
	var m struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, Homepage, ShortDescription, Description, Caveats string
			Platforms                                                 []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
			}
		}
	}
	if err := yaml.UnmarshalStrict([]byte(text), &m); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	if m.Metadata.Name != "gcu" || m.Spec.Version != "v1.2.3" || len(m.Spec.ShortDescription) > 50 || len(m.Spec.Platforms) == 0 {
		t.Errorf("the manifest is %+v", m)
	}
	for _, p := range m.Spec.Platforms {
		bin, ending := "kubectl-gcu", ".tar.gz"
		if p.Selector.MatchLabels["os"] == "windows" {
			bin, ending = "kubectl-gcu.exe", ".zip"
		}
		if p.Bin != bin || p.SHA256 != "abcd" || !strings.HasSuffix(p.URI, "/v1.2.3/kubectl-gcu_v1.2.3_"+p.Selector.MatchLabels["os"]+"_"+p.Selector.MatchLabels["arch"]+ending) {
			t.Errorf("platform %+v", p)
		}
	}
}
