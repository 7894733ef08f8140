package logging

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"go.uber.org/zap/buffer"
	"go.uber.org/zap/zapcore"
	"k8s.io/apimachinery/pkg/types"

	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// lineTime is the time format at the start of a line (contract statement 56).
const lineTime = "2006/01/02 15:04:05"

// GcuResource returns the key and the value, for logr's WithValues, that identify a gr in
// every log line about it. In the file they read gcuResource(name:<name>, uuid:<uid>)
// (contract statement 57), in JSON they are an object with the keys name and uuid. An empty
// uid means unknown.
func GcuResource(name string, uid types.UID) []any {
	return []any{"gcuResource", struct {
		Name string    `json:"name"`
		UUID types.UID `json:"uuid"`
	}{name, uid}}
}

// formatLine returns one entry as a single line, without a line end: YYYY/MM/DD HH:MM:SS
// LEVEL <file>:<line> message (contract statement 56), then the values. The time is in the
// zone of the entry. values is a JSON object; its members keep their order.
func formatLine(entry zapcore.Entry, values []byte) string {
	caller := "???:0"
	if entry.Caller.Defined {
		caller = entry.Caller.TrimmedPath()
	}
	line := entry.Time.Format(lineTime) + " " + levelWord(entry.Level) + " " + plaintext.Line(caller) + " " + plaintext.Line(entry.Message)
	if text := formatValues(values); text != "" {
		line += " " + text
	}
	if entry.LoggerName != "" {
		line += " logger=" + quote(entry.LoggerName)
	}
	return line
}

// levelWord has no word for verbose levels: everything below WARNING is INFO.
func levelWord(level zapcore.Level) string {
	switch {
	case level < zapcore.WarnLevel:
		return "INFO"
	case level == zapcore.WarnLevel:
		return "WARNING"
	}
	return "ERROR"
}

// formatValues returns the members of a JSON object as key=value, and members
// that are objects themselves as key(key:value, key:value).
func formatValues(object []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(object))
	decoder.UseNumber()
	if _, err := decoder.Token(); err != nil {
		return plaintext.Line(string(object)) // never lose the values
	}
	members, err := readMembers(decoder, "=")
	if err != nil {
		return plaintext.Line(string(object))
	}
	return strings.Join(members, " ")
}

// readMembers reads the members of an object up to its end.
func readMembers(decoder *json.Decoder, separator string) ([]string, error) {
	var members []string
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		value, nested, err := readValue(decoder)
		if err != nil {
			return nil, err
		}
		member := quote(fmt.Sprint(key))
		if !nested {
			member += separator
		}
		members = append(members, member+value)
	}
	_, err := decoder.Token()
	return members, err
}

// readValue reads one value; nested means that it is an object, in parentheses.
func readValue(decoder *json.Decoder) (text string, nested bool, err error) {
	token, err := decoder.Token()
	if err != nil {
		return "", false, err
	}
	switch t := token.(type) {
	case json.Delim:
		if t == '[' {
			text, err = readList(decoder)
			return text, false, err
		}
		members, err := readMembers(decoder, ":")
		return "(" + strings.Join(members, ", ") + ")", true, err
	case string:
		return quote(t), false, nil
	case nil:
		return "null", false, nil
	}
	return fmt.Sprint(token), false, nil
}

func readList(decoder *json.Decoder) (string, error) {
	var items []string
	for decoder.More() {
		item, _, err := readValue(decoder)
		if err != nil {
			return "", err
		}
		items = append(items, item)
	}
	_, err := decoder.Token()
	return "[" + strings.Join(items, ", ") + "]", err
}

// quote quotes a text whose end would not be visible otherwise.
func quote(text string) string {
	if text == "" || strings.ContainsAny(text, " \"\\=,()[]") || plaintext.Line(text) != text {
		return strconv.Quote(text)
	}
	return text
}

var pool = buffer.NewPool()

// lineEncoder adapts formatLine to zap. The encoder inside it collects the values as JSON, in
// order.
type lineEncoder struct{ zapcore.Encoder }

func newLineEncoder() zapcore.Encoder {
	return lineEncoder{zapcore.NewJSONEncoder(zapcore.EncoderConfig{
		EncodeTime:     zapcore.RFC3339NanoTimeEncoder,
		EncodeDuration: zapcore.StringDurationEncoder,
		SkipLineEnding: true,
	})}
}

// Clone implements zapcore.Encoder.
func (e lineEncoder) Clone() zapcore.Encoder { return lineEncoder{e.Encoder.Clone()} }

// EncodeEntry implements zapcore.Encoder.
func (e lineEncoder) EncodeEntry(entry zapcore.Entry, fields []zapcore.Field) (*buffer.Buffer, error) {
	values, err := e.Encoder.EncodeEntry(zapcore.Entry{}, fields)
	if err != nil {
		return nil, fmt.Errorf("encoding the values of %q: %w", entry.Message, err)
	}
	defer values.Free()
	line := pool.Get()
	line.AppendString(formatLine(entry, values.Bytes()))
	line.AppendByte('\n')
	return line, nil
}
