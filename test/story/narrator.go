package story

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Narrator prints the story.
type Narrator struct {
	out io.Writer
	// terminal enables a progress bar that is redrawn in place.
	terminal bool
	start    time.Time
	barShown bool
}

// NewNarrator returns a narrator. On a terminal it draws progress bars and uses bold.
func NewNarrator(out io.Writer, terminal bool) *Narrator {
	return &Narrator{out: out, terminal: terminal, start: time.Now()}
}

// Write prints the output of a program, indented.
func (n *Narrator) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		n.printf("    %s\n", strings.TrimRight(line, "\n"))
	}
	return len(p), nil
}

// chapter prints the heading of a chapter.
func (n *Narrator) chapter(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if n.terminal {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	n.printf("\n[%s] %s\n", clock(time.Since(n.start)), text)
}

// command prints a command and its output.
func (n *Narrator) command(line, output string) {
	n.printf("  $ %s\n", line)
	if output = strings.TrimRight(output, "\n"); output != "" {
		_, _ = n.Write([]byte(output + "\n"))
	}
}

// says prints a fact that was checked.
func (n *Narrator) says(format string, args ...any) {
	n.printf("  ✔ %s\n", fmt.Sprintf(format, args...))
}

// barWidth is the width of a progress bar in characters.
const barWidth = 30

// progress prints a line each time the counts change, and on a terminal a bar below.
func (n *Narrator) progress(elapsed time.Duration, done, total int, counts string) {
	n.printf("    %s  %s\n", clock(elapsed), counts)
	if !n.terminal || total == 0 {
		return
	}
	full := barWidth * done / total
	fmt.Fprintf(n.out, "    [%s%s] %d%%", strings.Repeat("█", full), strings.Repeat("·", barWidth-full), 100*done/total)
	n.barShown = true
}

// step prints that something ended, and what is said about it.
func (n *Narrator) step(elapsed time.Duration, what, message string) {
	if message != "" {
		what += ": " + message
	}
	n.printf("    %s  %s\n", clock(elapsed), what)
}

// printf overwrites a progress bar on the last line.
func (n *Narrator) printf(format string, args ...any) {
	if n.barShown {
		fmt.Fprint(n.out, "\r\x1b[K")
		n.barShown = false
	}
	fmt.Fprintf(n.out, format, args...)
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%02d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}
