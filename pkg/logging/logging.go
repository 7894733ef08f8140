// Package logging creates the logger of the project's programs: zapr over zap, with JSON or
// console lines, and optionally a rotating file on the host with the lines of contract
// statement 56.
package logging

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// Formats of log lines; Auto is Console on a terminal and JSON elsewhere.
const (
	Auto    = "auto"
	JSON    = "json"
	Console = "console"
)

// maxVerbosity is the largest accepted V level.
const maxVerbosity = 10

// Options are the log flags of a program. The zero value is not valid: bind them to a flag
// set first.
type Options struct {
	Format    string
	Verbosity int
	// File is the path of a rotating file that also gets every line; empty: none. Only one
	// process may write to it.
	File string
}

// BindFlags adds --log-format and --verbosity (-v) to a flag set.
func (o *Options) BindFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.Format, "log-format", Auto, "`format`: json, console, or auto = console on a terminal and json elsewhere")
	flags.IntVarP(&o.Verbosity, "verbosity", "v", 0, "log `level`: 0 what changes, 1 refused requests too, 4 how it was decided")
}

// Validate returns an error that names the invalid flag.
func (o Options) Validate() error {
	if formats := []string{Auto, JSON, Console}; !slices.Contains(formats, o.Format) {
		return fmt.Errorf("--log-format %q is none of %s", o.Format, strings.Join(formats, ", "))
	}
	if o.Verbosity < 0 || o.Verbosity > maxVerbosity {
		return fmt.Errorf("--verbosity %d is not between 0 and %d", o.Verbosity, maxVerbosity)
	}
	return nil
}

// New returns a logger that writes to w, and to o.File if set. An unwritable file is no
// error: w gets one warning, and still every line.
func New(w io.Writer, o Options) logr.Logger {
	return newLogger(w, o, defaultRotation)
}

func newLogger(w io.Writer, o Options, r rotation) logr.Logger {
	level := zap.NewAtomicLevelAt(zapcore.Level(-o.Verbosity))
	core := zapcore.NewCore(encoderFor(w, o.Format), zapcore.Lock(zapcore.AddSync(lines{w})), level)
	if o.File == "" {
		return zapr.NewLogger(zap.New(core))
	}
	alone := zap.New(core)
	kept := openFile(o.File, r, func(err error) {
		alone.Warn("Cannot write the log file, continuing without it", zap.String("file", o.File), zap.Error(err))
	})
	core = zapcore.NewTee(core, zapcore.NewCore(newLineEncoder(), zapcore.Lock(zapcore.AddSync(kept)), level))
	return zapr.NewLogger(zap.New(core, zap.AddCaller()))
}

// encoderFor returns the encoder of the lines written to w.
func encoderFor(w io.Writer, format string) zapcore.Encoder {
	encoding := zap.NewProductionEncoderConfig()
	encoding.CallerKey = zapcore.OmitKey
	encoding.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	encoding.EncodeDuration = zapcore.StringDurationEncoder
	if format == Console || (format == Auto && isTerminal(w)) {
		encoding.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		encoding.EncodeLevel = withVerbosity(zapcore.CapitalLevelEncoder)
		return zapcore.NewConsoleEncoder(encoding)
	}
	encoding.EncodeLevel = withVerbosity(zapcore.LowercaseLevelEncoder)
	return zapcore.NewJSONEncoder(encoding)
}

// lines writes entries, each in one line: zap escapes less than what a terminal obeys, and nothing
// in the messages of console lines.
type lines struct{ out io.Writer }

// Write implements io.Writer.
func (l lines) Write(entry []byte) (int, error) {
	line := plaintext.Text(strings.TrimSuffix(string(entry), "\n"))
	_, err := io.WriteString(l.out, strings.ReplaceAll(line, "\n", `\n`)+"\n")
	return len(entry), err
}

// withVerbosity prints V(n) for the verbose levels, which zap has no names for.
func withVerbosity(named zapcore.LevelEncoder) zapcore.LevelEncoder {
	return func(level zapcore.Level, out zapcore.PrimitiveArrayEncoder) {
		if level < zapcore.InfoLevel {
			out.AppendString(fmt.Sprintf("V(%d)", -level))
			return
		}
		named(level, out)
	}
}

func isTerminal(w io.Writer) bool {
	file, ok := plaintext.Unwrap(w).(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
