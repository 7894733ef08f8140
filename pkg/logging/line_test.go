package logging

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/zapr"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"k8s.io/klog/v2"
	"pgregory.net/rapid"
)

var writtenAt = time.Date(2022, 10, 10, 9, 43, 33, 999, time.UTC)

// lineOf returns the line in the file for one entry passed through zapr.
func lineOf(t interface{ Fatal(...any) }, entry zapcore.Entry, name string, before, values []any) string {
	var out strings.Builder
	core := zapcore.NewCore(newLineEncoder(), zapcore.AddSync(&out), zapcore.Level(-maxVerbosity))
	stamped := zap.WrapCore(func(inner zapcore.Core) zapcore.Core { return stamp{inner, entry} })
	log := zapr.NewLogger(zap.New(core, stamped)).WithName(name).WithValues(before...)
	switch err, failed := cause(values); {
	case failed:
		log.Error(err, entry.Message, values[1:]...)
	case entry.Level == zapcore.WarnLevel:
		log.GetSink().(zapr.Underlier).GetUnderlying().Warn(entry.Message)
	default:
		log.V(int(-entry.Level)).Info(entry.Message, values...)
	}
	if out.Len() == 0 {
		t.Fatal("nothing was written")
	}
	return out.String()
}

func cause(values []any) (err error, failed bool) {
	if len(values) > 0 {
		err, failed = values[0].(error)
	}
	return err, failed
}

// stamp sets the time and the caller of entries.
type stamp struct {
	zapcore.Core
	entry zapcore.Entry
}

func (s stamp) With(fields []zapcore.Field) zapcore.Core { return stamp{s.Core.With(fields), s.entry} }

func (s stamp) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	return checked.AddCore(entry, s)
}

func (s stamp) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	entry.Time, entry.Caller = s.entry.Time, s.entry.Caller
	return s.Core.Write(entry, fields)
}

func caller(path string, line int) zapcore.EntryCaller {
	return zapcore.NewEntryCaller(0, path, line, true)
}

func TestLinesOfTheFile(t *testing.T) {
	reconciler := caller("github.com/topsops/gcu-operator/pkg/gcuresource/reconciler.go", 191)
	gr := GcuResource("enflame-gcu-resource", "1f83296b-10c4-4f8c-9a81-ef2860472980")
	tests := []struct {
		name   string
		logger string
		level  zapcore.Level
		caller zapcore.EntryCaller
		text   string
		before []any
		values []any
		want   string
	}{
		{
			name: "contract 56: what changes is INFO", caller: caller("github.com/topsops/gcu-operator/cmd/manager/run.go", 91), text: "Starting the manager",
			want: "2022/10/10 09:43:33 INFO manager/run.go:91 Starting the manager",
		},
		{
			name: "contract 56: a warning is WARNING", level: zapcore.WarnLevel, caller: reconciler, text: "Odd",
			want: "2022/10/10 09:43:33 WARNING gcuresource/reconciler.go:191 Odd",
		},
		{
			name: "contract 56: an error is ERROR and says why", caller: reconciler, text: "Reconciler error",
			values: []any{errors.New("applying DaemonSet: refused"), "node", "a"},
			want:   `2022/10/10 09:43:33 ERROR gcuresource/reconciler.go:191 Reconciler error node=a error="applying DaemonSet: refused"`,
		},
		{
			name: "contract 56: verbose lines are INFO, there is no other word", level: -4, caller: reconciler, text: "Deciding",
			want: "2022/10/10 09:43:33 INFO gcuresource/reconciler.go:191 Deciding",
		},
		{
			name: "contract 56: a line end in message and values does not begin a line", caller: reconciler, text: "One\nTwo\r\x00",
			values: []any{"output", "a\nb"},
			want:   `2022/10/10 09:43:33 INFO gcuresource/reconciler.go:191 One\nTwo\r\u0000 output="a\nb"`,
		},
		{
			name: "contract 56: an unknown caller keeps its place", text: "Lost",
			want: "2022/10/10 09:43:33 INFO ???:0 Lost",
		},
		{
			name: "contract 57: a gr is told by name and uuid", caller: reconciler, text: "Adding finalizer", before: gr,
			values: []any{"finalizer", "topsops.enflame.com/v1"},
			want: "2022/10/10 09:43:33 INFO gcuresource/reconciler.go:191 Adding finalizer " +
				"gcuResource(name:enflame-gcu-resource, uuid:1f83296b-10c4-4f8c-9a81-ef2860472980) finalizer=topsops.enflame.com/v1",
		},
		{
			name: "contract 57: a gr that is gone has no uuid", caller: reconciler, text: "Gone", before: GcuResource("x", ""),
			want: `2022/10/10 09:43:33 INFO gcuresource/reconciler.go:191 Gone gcuResource(name:x, uuid:"")`,
		},
		{
			name: "objects, lists, numbers, durations and names of loggers can be read", logger: "client", caller: reconciler, text: "Deleting Pod", before: []any{"Pod", klog.KRef("kube-system", "driver-x")},
			values: []any{"nodes", []string{"a", "b"}, "left", 3, "after", 1500 * time.Millisecond, "old", true, "none", nil, "nested", map[string]any{"b": map[string]int{"c": 1}, "a": 2.5}},
			want: "2022/10/10 09:43:33 INFO gcuresource/reconciler.go:191 Deleting Pod Pod(name:driver-x, namespace:kube-system) " +
				"nodes=[a, b] left=3 after=1.5s old=true none=null nested(a:2.5, b(c:1)) logger=client",
		},
		{
			name: "other alphabets stay, and what would be misread is quoted", caller: reconciler, text: "重启 \"docker\"",
			values: []any{"empty", "", "spaced", "a b", "word", "重启", "pair", "a=b", "odd key", "x"},
			want:   `2022/10/10 09:43:33 INFO gcuresource/reconciler.go:191 重启 "docker" empty="" spaced="a b" word=重启 pair="a=b" "odd key"=x`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := lineOf(t, zapcore.Entry{Level: tt.level, Time: writtenAt, Message: tt.text, Caller: tt.caller}, tt.logger, tt.before, tt.values)
			if diff := cmp.Diff(tt.want+"\n", got); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnEntryIsAlwaysOneLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, key, value := rapid.String().Draw(t, "text"), rapid.String().Draw(t, "key"), string(rapid.SliceOf(rapid.Byte()).Draw(t, "value"))
		got := lineOf(t, zapcore.Entry{Time: writtenAt, Message: text}, "", nil, []any{key, value})
		if strings.Index(got, "\n") != len(got)-1 {
			t.Fatalf("%q is not one line", got)
		}
		if start := "2022/10/10 09:43:33 INFO ???:0 "; !strings.HasPrefix(got, start) {
			t.Fatalf("%q does not begin with %q", got, start)
		}
	})
}

func TestValuesThatAreNotJSONAreLoggedAsTheyAre(t *testing.T) {
	for in, want := range map[string]string{"": "", "{\"a\":\n": `{"a":\n`, `{"a":[1,`: `{"a":[1,`, "\n": `\n`} {
		if got := formatValues([]byte(in)); got != want {
			t.Errorf("formatValues(%q) = %q, want %q", in, got, want)
		}
	}
}
