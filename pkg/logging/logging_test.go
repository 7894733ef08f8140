package logging

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

func TestBindFlags(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want Options
	}{
		{"defaults to auto and what changes", nil, Options{Format: "auto"}},
		{"reads both flags", []string{"--log-format=json", "--verbosity=4"}, Options{Format: "json", Verbosity: 4}},
		{"-v is --verbosity", []string{"-v", "1"}, Options{Format: "auto", Verbosity: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got Options
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			got.BindFlags(flags)
			if err := flags.Parse(tt.args); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
			if err := got.Validate(); err != nil {
				t.Errorf("Validate: %v", err)
			}
		})
	}
}

func TestValidateNamesTheFlagThatIsWrong(t *testing.T) {
	tests := []struct {
		name    string
		options Options
		want    string
	}{
		{"the zero value", Options{}, `--log-format "" is none of auto, json, console`},
		{"an unknown format", Options{Format: "text"}, `--log-format "text" is none of auto, json, console`},
		{"a format in capitals", Options{Format: "JSON"}, `--log-format "JSON" is none of auto, json, console`},
		{"a negative verbosity", Options{Format: Auto, Verbosity: -1}, "--verbosity -1 is not between 0 and 10"},
		{"a verbosity beyond the largest", Options{Format: Auto, Verbosity: 11}, "--verbosity 11 is not between 0 and 10"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.options.Validate(); err == nil || err.Error() != tt.want {
				t.Errorf("Validate = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestNewWritesWhatTheVerbosityAsksFor(t *testing.T) {
	for verbosity, want := range map[int][]string{0: {"V0"}, 1: {"V0", "V1"}, 4: {"V0", "V1", "V4"}, 10: {"V0", "V1", "V4"}} {
		var out bytes.Buffer
		log := New(&out, Options{Format: JSON, Verbosity: verbosity})
		log.Info("V0")
		log.V(1).Info("V1")
		log.V(4).Info("V4")
		var got []string
		for line := range strings.Lines(out.String()) {
			got = append(got, fieldsOf(t, line)["msg"].(string))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("messages at verbosity %d (-want +got):\n%s", verbosity, diff)
		}
	}
}

func TestNewShowsTheVerbosityOfALine(t *testing.T) {
	tests := []struct {
		name, format string
		write        func(logr.Logger)
		want         string
	}{
		{"what changes is info for machines", JSON, func(l logr.Logger) { l.Info("x") }, "info"},
		{"how it was decided is V(4) for machines", JSON, func(l logr.Logger) { l.V(4).Info("x") }, "V(4)"},
		{"a refused request is V(1), not debug", JSON, func(l logr.Logger) { l.V(1).Info("x") }, "V(1)"},
		{"an error is an error at any verbosity", JSON, func(l logr.Logger) { l.V(4).Error(nil, "x") }, "error"},
		{"what changes is INFO for people", Console, func(l logr.Logger) { l.Info("x") }, "INFO"},
		{"how it was decided is V(4) for people", Console, func(l logr.Logger) { l.V(4).Info("x") }, "V(4)"},
		{"verbosities add up", Console, func(l logr.Logger) { l.V(1).V(3).Info("x") }, "V(4)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			tt.write(New(&out, Options{Format: tt.format, Verbosity: 10}))
			var got string
			if tt.format == JSON {
				got, _ = fieldsOf(t, out.String())["level"].(string)
			} else if fields := strings.Split(out.String(), "\t"); len(fields) > 1 {
				got = fields[1]
			}
			if got != tt.want {
				t.Errorf("level %q of line %q, want %q", got, out.String(), tt.want)
			}
		})
	}
}

func fieldsOf(t *testing.T, line string) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := json.Unmarshal([]byte(line), &fields); err != nil {
		t.Fatalf("line %q is not JSON: %v", line, err)
	}
	return fields
}

func TestNewWritesJSONWhereThereIsNoTerminal(t *testing.T) {
	for _, format := range []string{JSON, Auto} {
		var out bytes.Buffer
		New(&out, Options{Format: format}).WithName("rollout").Error(errors.New("refused"), "Deleting Pod failed", "node", "a", "after", 1500*time.Millisecond)
		fields := fieldsOf(t, out.String())
		written, ok := fields["ts"].(string)
		if _, err := time.Parse(time.RFC3339Nano, written); !ok || err != nil {
			t.Errorf("format %s: ts = %v, want RFC 3339", format, fields["ts"])
		}
		delete(fields, "ts")
		want := map[string]any{"level": "error", "logger": "rollout", "msg": "Deleting Pod failed", "node": "a", "after": "1.5s", "error": "refused"}
		if diff := cmp.Diff(want, fields); diff != "" {
			t.Errorf("format %s: fields (-want +got):\n%s", format, diff)
		}
	}
}

func TestNewWritesLinesForPeople(t *testing.T) {
	var out bytes.Buffer
	New(&out, Options{Format: Console}).Info("Deleting Pod", "node", "a")
	clock, rest, _ := strings.Cut(out.String(), "\t")
	if _, err := time.Parse("15:04:05.000", clock); err != nil {
		t.Errorf("line %q does not begin with the time of day: %v", out.String(), err)
	}
	if diff := cmp.Diff("INFO\tDeleting Pod\t{\"node\": \"a\"}\n", rest); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
}

func TestAnEntryIsOnePlainLine(t *testing.T) {
	const nasty = "a\x1b[2J\u009b\x7f\u202e\r\nFORGED"
	for _, format := range []string{JSON, Console} {
		var out bytes.Buffer
		New(&out, Options{Format: format}).WithName(nasty).Error(errors.New(nasty), nasty, nasty, nasty)
		if strings.ContainsAny(out.String(), "\x1b\u009b\x7f\u202e\r") || strings.Index(out.String(), "\n") != out.Len()-1 {
			t.Errorf("format %s: the line is %q", format, out.String())
		}
		if format == JSON && fieldsOf(t, out.String())["msg"] != nasty {
			t.Errorf("the message is another: %s", out.String())
		}
	}
}
