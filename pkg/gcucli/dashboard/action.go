package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/plaintext"
)

// bodyLimit bounds the form of an action.
const bodyLimit = 4 << 10

// actions shows what an action would do, and carries it out.
type actions struct {
	source Source
	// resource returns a gr as it was read last, and what the user may do.
	resource func(gr string) (Resource, verbs)
}

// confirmation is what the page says about an action before it is carried out.
type confirmation struct {
	Words words
	Facts []fact
	// Refused is why it would be refused; empty if it would be carried out. Then Seen is the one of the DryRun.
	Refused, Seen string
}

// fact is one fact about an action.
type fact struct {
	// Name is a key of words.
	Name string
	// Values are at least one. English reports whether they are words of the operator or of the spec, which
	// are in no other language.
	Values  []string
	English bool
}

// factsOf returns what an action on a gr is about, in words; the gr is as the page shows it.
func factsOf(w words, r *Resource, a Action, dryRun *DryRun) []fact {
	var facts []fact
	add := func(name string, english bool, values ...string) {
		if values = slices.DeleteFunc(values, func(v string) bool { return v == "" }); len(values) > 0 {
			facts = append(facts, fact{name, values, english})
		}
	}
	switch a.Verb {
	case Approve, Rollback:
		add("revision", true, dryRun.Revision)
		add("changes", true, dryRun.Changes...)
		add("images", true, dryRun.Images...)
		add("nodes-"+string(a.Verb), false, dryRun.affected())
	case Pause, Resume:
		if ro := r.Status.Rollout; ro != nil {
			add("nodes-wait", false, strconv.Itoa(int(ro.Nodes.Pending+ro.Nodes.Held)))
			add("in-flight", false, strconv.Itoa(int(ro.Nodes.InFlight)))
			add("failed", false, strconv.Itoa(int(ro.Nodes.Failed)))
		}
	case Hold, Release, Retry:
		name := a.Target
		if a.Verb == Retry {
			name, _, _ = strings.Cut(a.Target, "_")
		}
		if i := slices.IndexFunc(r.Nodes, func(n display.Node) bool { return n.Name == name }); i >= 0 {
			n := &r.Nodes[i]
			add("node", false, n.Name)
			add("state", false, strings.TrimSuffix(w.Of(n.State)+" · "+w.Label(n.Reason).Text, " · "))
			add("message", true, n.Message)
		}
	}
	add("unknown", true, dryRun.NotShown...)
	add("says", true, strings.Split(strings.TrimSpace(dryRun.Says), "\n")...)
	return facts
}

// affected returns the number of the nodes, and some of their names.
func (w *DryRun) affected() string {
	switch {
	case w.Nodes == nil:
		return ""
	case w.Names == "":
		return strconv.Itoa(*w.Nodes)
	}
	return fmt.Sprintf("%d: %s", *w.Nodes, w.Names)
}

// actionOf reads an action from the values of a request.
func actionOf(values url.Values) (Action, error) {
	a := Action{Verb: Verb(values.Get("verb")), GR: values.Get("gr"), Target: values.Get("target"), Seen: values.Get("seen")}
	if !slices.Contains(Verbs, a.Verb) {
		return a, fmt.Errorf("there is no action %q", a.Verb)
	}
	return a, nil
}

// dryRun responds with what an action would do.
func (s actions) dryRun(w http.ResponseWriter, r *http.Request) {
	a, err := actionOf(r.URL.Query())
	if err != nil {
		fail(w, err.Error(), http.StatusBadRequest)
		return
	}
	dryRun, err := s.source.DryRun(r.Context(), a)
	resource, _ := s.resource(a.GR)
	c := confirmation{Words: wordsFor(r), Seen: dryRun.Seen}
	if err != nil {
		c.Refused, c.Seen = err.Error(), ""
	}
	c.Facts = factsOf(c.Words, &resource, a, &dryRun)
	render(w, "dry-run", c)
}

// do carries out an action, as it was shown.
func (s actions) do(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, bodyLimit)
	if err := r.ParseForm(); err != nil {
		fail(w, err.Error(), http.StatusBadRequest)
		return
	}
	a, err := actionOf(r.PostForm)
	if err == nil && a.Seen == "" {
		err = fmt.Errorf("%s: GET /dry-run shows what it would do; pass its response in parameter seen", a.Verb)
	}
	if err != nil {
		fail(w, err.Error(), http.StatusBadRequest)
		return
	}
	said, err := s.source.Do(r.Context(), a)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if err != nil {
		w.WriteHeader(http.StatusConflict)
		said = err.Error()
	}
	_, _ = fmt.Fprintln(w, plaintext.Text(strings.TrimSpace(said))) //nolint:gosec // G705: plain text, which the browser does not take for HTML; it may be gone
}
