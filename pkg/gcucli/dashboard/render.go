package dashboard

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/topsops/gcu-operator/pkg/plaintext"
)

//go:embed page.html style.css script.js
var files embed.FS

// wordsFor returns the texts in the language that a request asks for.
func wordsFor(r *http.Request) words {
	language := r.URL.Query().Get("lang")
	if !slices.Contains(languages, language) {
		language = languages[0]
		if accepted := r.Header.Get("Accept-Language"); strings.HasPrefix(accepted, "zh") {
			language = "zh"
		}
	}
	return texts[language]
}

// render writes a template, or an error if it fails.
func render(w http.ResponseWriter, name string, data any) {
	text, err := rendered(name, data)
	if err != nil {
		fail(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, text) // the browser may be gone
}

// rendered returns a template with data. Control characters of agents and users are escaped: those that
// change the direction of writing mean the same to a browser as to a terminal.
func rendered(name string, data any) (string, error) {
	var text bytes.Buffer
	if err := templates.ExecuteTemplate(&text, name, data); err != nil {
		return "", fmt.Errorf("rendering the page: %w", err)
	}
	return plaintext.Text(text.String()), nil
}

// fail answers with a message, which may repeat what others wrote.
func fail(w http.ResponseWriter, message string, code int) {
	http.Error(w, plaintext.Text(message), code)
}

// clockOf returns the time of day in UTC, "" of the zero time.
func clockOf(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.TimeOnly)
}

// SecondsLayout is that of the times of a node's work, which are in UTC and may be days ago.
const SecondsLayout = time.DateTime + " MST"

// button is a button on the page.
type button struct{ Verb, GR, Target, Label, Ask string }

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"button": func(w words, verb, gr, target, named string) button {
		label := w.Of(verb)
		if named != "" {
			label += " " + named
		}
		return button{Verb: verb, GR: gr, Target: target, Label: label, Ask: w.Of(verb + "?")}
	},
	"letter": letterOf,
	"label":  words.Label,
	"query": func(lang, by string) string {
		query := url.Values{"lang": {lang}}
		if by != "" {
			query.Set("by", by)
		}
		return "?" + query.Encode()
	},
	"minute": func(t *metav1.Time) string {
		if t == nil {
			return ""
		}
		return t.Format("2006-01-02 15:04 MST")
	},
	"second": func(t *metav1.Time) string {
		if t == nil {
			return ""
		}
		return t.UTC().Format(SecondsLayout)
	},
}).ParseFS(files, "page.html"))
