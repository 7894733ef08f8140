package audit

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/topsops/gcu-operator/pkg/plaintext"
)

//go:embed report.html
var reportHTML string

var page = template.Must(template.New("report").Funcs(template.FuncMap{"clock": clock, "count": count}).Parse(reportHTML))

// bar is a piece of work on the timeline: where it begins and how long it is, in percent.
type bar struct {
	*Work
	Took        string
	Left, Width string
	Class       string
}

// mark is a moment on the timeline.
type mark struct {
	Moment
	Left string
}

// HTML writes the report as one page without scripts, or anything from elsewhere. An error is a defect of the page.
func (r *Report) HTML() (string, error) {
	s := scale{r.Began, cmp.Or(max(r.Seconds, 0), 1)}
	bars := make([]bar, 0, len(r.Nodes))
	for i := range r.Nodes {
		w := &r.Nodes[i]
		took := w.seconds(r.Time)
		s.seconds = max(s.seconds, int64(w.Began.Sub(r.Began).Seconds())+took)
		bars = append(bars, bar{Work: w, Took: w.took(r.Time), Class: classOf(w)})
	}
	for i := range bars {
		bars[i].Left, bars[i].Width = s.at(bars[i].Began), s.percent(bars[i].seconds(r.Time))
	}
	marks := make([]mark, 0, len(r.Timeline))
	for _, m := range r.Timeline {
		marks = append(marks, mark{m, s.at(m.Time)})
	}
	var b strings.Builder
	if err := page.Execute(&b, map[string]any{"Report": r, "Bars": bars, "Marks": marks}); err != nil {
		return "", fmt.Errorf("writing the page: %w", err)
	}
	return plaintext.Text(b.String()), nil
}

func classOf(w *Work) string {
	switch {
	case w.endUnknown:
		return "ended-unknown"
	case w.failed():
		return "failed"
	case w.Ended == nil:
		return "running"
	case w.Result == "Done":
		return "done"
	}
	return "other"
}

// scale is the time that the width of the page stands for.
type scale struct {
	began   time.Time
	seconds int64
}

func (s *scale) at(t time.Time) string { return s.percent(int64(t.Sub(s.began).Seconds())) }

func (s *scale) percent(seconds int64) string {
	return fmt.Sprintf("%.2f", min(100, max(0, 100*float64(seconds)/float64(s.seconds))))
}
