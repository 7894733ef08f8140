package story

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// Narrator tells the story to a writer.
type Narrator struct {
	out io.Writer
	// terminal allows a progress bar that is drawn over itself.
	terminal bool
	start    time.Time
	barShown bool
}

// NewNarrator returns a narrator. On a terminal it draws progress bars and uses bold.
func NewNarrator(out io.Writer, terminal bool) *Narrator {
	return &Narrator{out: out, terminal: terminal, start: time.Now()}
}

// Write passes on what a program says, indented.
func (n *Narrator) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		n.printf("    %s\n", strings.TrimRight(line, "\n"))
	}
	return len(p), nil
}

// chapter begins a chapter.
func (n *Narrator) chapter(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if n.terminal {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	n.printf("\n[%s] %s\n", clock(time.Since(n.start)), text)
}

// command shows a command and what it printed.
func (n *Narrator) command(line, output string) {
	n.printf("  $ %s\n", line)
	if output = strings.TrimRight(output, "\n"); output != "" {
		_, _ = n.Write([]byte(output + "\n"))
	}
}

// says states a fact that was checked.
func (n *Narrator) says(format string, args ...any) {
	n.printf("  ✔ %s\n", fmt.Sprintf(format, args...))
}

// barWidth is the number of characters of a progress bar.
const barWidth = 30

// progress shows one line each time the counts changed, and on a terminal a bar below.
func (n *Narrator) progress(elapsed time.Duration, done, total int, counts string) {
	n.printf("    %s  %s\n", clock(elapsed), counts)
	if !n.terminal || total == 0 {
		return
	}
	full := barWidth * done / total
	fmt.Fprintf(n.out, "    [%s%s] %d%%", strings.Repeat("█", full), strings.Repeat("·", barWidth-full), 100*done/total)
	n.barShown = true
}

// printf prints over a progress bar that stands on the last line.
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
