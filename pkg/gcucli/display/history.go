package display

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
)

// Revision is one kept spec of a gr.
type Revision struct {
	// Number grows with each change; Name is the argument of a rollback.
	Number  int64       `json:"number"`
	Name    string      `json:"name"`
	Created metav1.Time `json:"created"`
	// Present is true if it is the current spec of the gr.
	Present bool `json:"present"`
	// KnownGood is true for the last one at which every reachable node was available.
	KnownGood bool `json:"lastKnownGood"`
	// Changes since the previous revision; absent for the oldest kept one.
	Changes []Change `json:"changes,omitempty"`
	// Problem is why the spec cannot be read; empty if it can.
	Problem string `json:"problem,omitempty"`
	// Spec is nil if it cannot be read.
	Spec *topsv1.GcuResourceSpec `json:"spec,omitempty"`
}

// HistoryOf describes the kept specs of a gr, newest first. list may include other
// ControllerRevisions; dro may be nil.
func HistoryOf(gr *topsv1.GcuResource, list []appsv1.ControllerRevision, dro *topsv1.DaemonRollout) ([]Revision, error) {
	good := ""
	if dro != nil && dro.Status.LastKnownGood != nil {
		good = dro.Status.LastKnownGood.GcuResourceRevision
	}
	history := []Revision{}
	for i := range list {
		r := &list[i]
		if !daemonset.IsOf(r, gr) {
			continue
		}
		spec, problem := specOf(r)
		history = append(history, Revision{Number: r.Revision, Name: r.Name, Created: r.CreationTimestamp, KnownGood: r.Name == good, Spec: spec, Problem: problem})
	}
	slices.SortFunc(history, func(a, b Revision) int {
		return cmp.Or(cmp.Compare(b.Number, a.Number), strings.Compare(a.Name, b.Name))
	})
	return history, relate(history, &gr.Spec)
}

// specOf decodes the spec in a revision.
func specOf(r *appsv1.ControllerRevision) (spec *topsv1.GcuResourceSpec, problem string) {
	var data struct {
		Spec *topsv1.GcuResourceSpec `json:"spec"`
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return nil, fmt.Sprintf("revision %s cannot be read: %v", r.Name, err)
	}
	if data.Spec == nil {
		return nil, fmt.Sprintf("revision %s holds no spec", r.Name)
	}
	return data.Spec, ""
}

// relate compares each revision with the previous one and with the current spec.
func relate(history []Revision, present *topsv1.GcuResourceSpec) error {
	for i := range history {
		r := &history[i]
		if r.Spec == nil {
			continue
		}
		differs, err := ChangesOf(r.Spec, present)
		if err != nil {
			return err
		}
		r.Present = i == 0 && len(differs) == 0
		if i+1 < len(history) && history[i+1].Spec != nil {
			if r.Changes, err = ChangesOf(history[i+1].Spec, r.Spec); err != nil {
				return err
			}
		}
	}
	return nil
}

// FindRevision finds a revision by its name or number, or for "" the newest one that
// differs from the current spec. The error lists the available ones.
func FindRevision(history []Revision, wanted string) (*Revision, error) {
	var names []string
	for i := range history {
		r := &history[i]
		if wanted == "" && !r.Present && r.Spec != nil || wanted != "" && (r.Name == wanted || strconv.FormatInt(r.Number, 10) == wanted) {
			return r, nil
		}
		names = append(names, fmt.Sprintf("%d (%s)", r.Number, r.Name))
	}
	if wanted == "" {
		return nil, fmt.Errorf("no earlier spec is kept")
	}
	return nil, fmt.Errorf("no revision %s is kept; there are %s", wanted, cmp.Or(strings.Join(names, ", "), "none"))
}

// HistoryText has one line per revision, and one per further change.
func HistoryText(history []Revision, s Style) string {
	t := Table{Header: []string{"REVISION", "NAME", "AGE", "NOTE", "CHANGES"}}
	for i := range history {
		r := &history[i]
		changes := []string{}
		for _, c := range r.Changes {
			changes = append(changes, c.String())
		}
		if r.Problem != "" {
			changes = []string{r.Problem}
		}
		switch {
		case len(changes) > 0:
		case i+1 == len(history):
			changes = []string{"the oldest that is kept"}
		case r.Changes == nil:
			changes = []string{"unknown: the previous revision cannot be read"}
		default:
			changes = []string{"none"}
		}
		for j, c := range changes {
			row := cells("", "", "", "", c)
			if j == 0 {
				row = cells(strconv.FormatInt(r.Number, 10), r.Name, s.age(r.Created), r.note(), c)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t.Text(s)
}

func (r *Revision) note() string {
	var notes []string
	if r.Present {
		notes = append(notes, "current")
	}
	if r.KnownGood {
		notes = append(notes, "last known good")
	}
	return strings.Join(notes, ", ")
}
