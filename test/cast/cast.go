// Package cast records what a program prints as an asciicast, version 2
// (https://docs.asciinema.org/manual/asciicast/v2/): a line of JSON that describes the terminal, then for each write a line
// [seconds since the beginning, "o", text]. It reads one as the text that is left on the screen.
package cast

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// header describes the terminal.
type header struct {
	Version int `json:"version"`
	Width   int `json:"width"`
	Height  int `json:"height"`
	// IdleTimeLimit is the longest pause of a player, in seconds.
	IdleTimeLimit float64 `json:"idle_time_limit,omitempty"`
	Title         string  `json:"title,omitempty"`
}

const (
	version = 2
	// output is the type of an event: something was printed.
	output = "o"
	// idleLimit is the longest pause of a player, in seconds.
	idleLimit = 2
)

// Recorder writes what it is given as a cast.
type Recorder struct {
	out   io.Writer
	now   func() time.Time
	begin time.Time
	// rest is the beginning of a character whose end was not written yet.
	rest []byte
}

// Record begins a cast of a terminal of this size, in characters. now returns the time. The error is that of out.
func Record(out io.Writer, title string, width, height int, now func() time.Time) (*Recorder, error) {
	r := &Recorder{out: out, now: now, begin: now()}
	return r, r.line(header{Version: version, Width: width, Height: height, IdleTimeLimit: idleLimit, Title: title})
}

// Write records a piece of text. Lines that end without a carriage return get one, as a terminal adds it.
func (r *Recorder) Write(p []byte) (int, error) {
	text := slices.Concat(r.rest, p)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	r.rest = slices.Clone(text[whole:])
	if whole == 0 {
		return len(p), nil
	}
	printed := strings.ReplaceAll(strings.ReplaceAll(string(text[:whole]), "\r\n", "\n"), "\n", "\r\n")
	return len(p), r.line([]any{float64(r.now().Sub(r.begin).Milliseconds()) / 1000, output, printed})
}

// line writes a line of JSON.
func (r *Recorder) line(value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("recording: %w", err)
	}
	_, err = r.out.Write(append(data, '\n'))
	return err
}

// control matches the sequences that change colors or erase the rest of a line.
var control = regexp.MustCompile(`\x1b\[[0-9;]*[A-Za-z]`)

// Text returns what a cast leaves on the screen, without colors: of a line that is written again after a carriage return
// only what was written last.
func Text(cast io.Reader) (string, error) {
	lines := bufio.NewScanner(cast)
	lines.Buffer(nil, 1<<20)
	var head header
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &head) != nil || head.Version != version {
		return "", errors.Join(errors.New("it does not begin with the header of an asciicast of version 2"), lines.Err())
	}
	var printed strings.Builder
	for lines.Scan() {
		var event [3]any
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return "", fmt.Errorf("reading an event: %w", err)
		}
		if text, is := event[2].(string); is && event[1] == output {
			printed.WriteString(text)
		}
	}
	var screen strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(printed.String(), "\r\n", "\n")) {
		line = line[strings.LastIndex(line, "\r")+1:]
		screen.WriteString(strings.TrimRight(control.ReplaceAllString(line, ""), " \n") + "\n")
	}
	return screen.String(), lines.Err()
}
