package display

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestTheRunbooksNameWhatThePluginAdvises: the table of docs/operate.md and the plugin have
// the same reasons, except those that need no action, which may be missing in the table.
func TestTheRunbooksNameWhatThePluginAdvises(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operate.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n## Runbooks\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	named := map[string]bool{}
	for line := range strings.Lines(section) {
		column, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		for _, reason := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(column, -1) {
			if strings.HasPrefix(line, "| ") {
				named[reason[1]] = true
			}
		}
	}
	if len(named) == 0 {
		t.Fatal("docs/operate.md has no table of reasons below Runbooks")
	}
	for _, reason := range slices.Sorted(maps.Keys(named)) {
		if advice[reason] == "" {
			t.Errorf("docs/operate.md has a runbook for %s, about which the plugin says nothing", reason)
		}
	}
	for _, reason := range slices.Sorted(maps.Keys(advice)) {
		if !strings.HasPrefix(advice[reason], "nothing") && !named[reason] {
			t.Errorf("docs/operate.md has no runbook for %s; the plugin says: %s", reason, advice[reason])
		}
	}
}

// Every reason of a node has advice, except those without anything to do.
func TestEveryReasonHasAdvice(t *testing.T) {
	silent := []string{"AtTarget", "InProgress", "AwaitingSlot", "Aborted", "Withdrawn", "Superseded", "TargetChanged", "NodeReplaced", "Succeeded",
		// About a rollout or a request, not a node.
		"Complete", "NodesFailed", "NodesPinned", "Undone", "AwaitingRequests", "RollingBack", "RolledBack", "Restarted", "RevisionChanged"}
	for _, file := range []string{"../../daemonupdater/rollout/reason.go", "../../nodeupgrade/operation/reasons.go", "../../../api/v1/reasons.go"} {
		reasons := reasonsIn(t, file)
		if len(reasons) < 15 {
			t.Errorf("%s has only %d reasons: is this still the list?", file, len(reasons))
		}
		for _, reason := range reasons {
			if (advice[reason] == "") != slices.Contains(silent, reason) {
				t.Errorf("reason %s of %s has advice %q", reason, file, advice[reason])
			}
		}
	}
}

// reasonsIn returns the values of the constants whose names start with Reason, also of those that
// stand for one of api/v1/reasons.go.
func reasonsIn(t *testing.T, file string) []string {
	t.Helper()
	shared := constantsIn(t, "../../../api/v1/reasons.go")
	var reasons []string
	for name, value := range constantsIn(t, file) {
		if strings.HasPrefix(name, "Reason") {
			reasons = append(reasons, cmp.Or(shared[strings.TrimPrefix(value, "topsv1.")], value))
		}
	}
	slices.Sort(reasons)
	return reasons
}

// constantsIn returns the constants of a file: their strings, or what they stand for.
func constantsIn(t *testing.T, file string) map[string]string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) == 0 {
			return true
		}
		switch value := spec.Values[0].(type) {
		case *ast.BasicLit:
			text, err := strconv.Unquote(value.Value)
			if err != nil {
				t.Fatal(err)
			}
			constants[spec.Names[0].Name] = text
		case *ast.SelectorExpr:
			constants[spec.Names[0].Name] = types.ExprString(value)
		}
		return true
	})
	return constants
}

func TestAdviceNamesWhatItIsAbout(t *testing.T) {
	for reason, text := range advice {
		if strings.Contains(text, "kube-system") {
			t.Errorf("the advice about %s is for an operator in kube-system only: %s", reason, text)
		}
	}
	if got, want := adviceFor("OperationFailed", "my-gr", "n1", "driver_verify"),
		"kubectl gcu task retry n1 driver_verify, kubectl gcu abort n1, or roll out another revision"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := adviceFor("Paused", "my-gr", "", ""), "kubectl gcu resume my-gr"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
