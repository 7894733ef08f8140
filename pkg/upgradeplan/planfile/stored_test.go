package planfile

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

func TestWhatIsStoredOfAFile(t *testing.T) {
	gr := func(follows string) *topsv1.GcuResource {
		return &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "fleet", UID: "uid", Annotations: map[string]string{topsv1.AnnotationUpgradePlan: follows}}}
	}
	now := metav1.Now()
	present := func(of string, ended *metav1.Time) *topsv1.UpgradePlan {
		return &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "plan", UID: "plan-uid", ResourceVersion: "7", Finalizers: []string{"kept"}},
			Spec: topsv1.UpgradePlanSpec{GcuResource: of}, Status: topsv1.UpgradePlanStatus{Time: ended}}
	}
	later := func() *topsv1.UpgradePlan {
		p := present("fleet", nil)
		p.Generation = 3
		return p
	}
	same := later()
	same.Spec = object(t, fleet(2, always("driver")), 1, 0).Spec
	edited, recreated := gr(""), gr("")
	edited.Generation, recreated.UID = 1, "another"
	for _, tt := range []struct {
		name    string
		present *topsv1.UpgradePlan
		// since: somebody else wrote it since the plan was checked. copied is the generation in the file.
		since  bool
		copied int64
		// of is the UID in the file, of the stored plan if empty. checked is the gr when the plan was checked, nil for the current one.
		of      types.UID
		checked *topsv1.GcuResource
		follows string
		step    bool
		wrong   string
	}{
		{name: "a new one"},
		{name: "a new one, step by step", step: true},
		{name: "in place of one that never ran", present: present("fleet", nil)},
		{name: "in place of the one in force", present: present("fleet", &now), follows: "plan"},
		{name: "in place of one that has ended", present: present("fleet", &now), follows: "other", wrong: "has ended, and keeps its result: give the plan another metadata.name"},
		{name: "in place of that of another gr", present: present("other", nil), wrong: "UpgradePlan plan is for gr other: give the plan another metadata.name"},
		{name: "in place of one that somebody else wrote since", present: later(), since: true, wrong: "another client wrote UpgradePlan plan since this plan was checked"},
		{name: "the same as somebody else wrote since", present: same, since: true, copied: 2},
		{name: "edited by kubectl get", present: later(), copied: 3},
		{name: "edited by kubectl get, of one that was deleted and created again", present: later(), copied: 3, of: "uid-of-the-deleted",
			wrong: "a copy of another UpgradePlan, with uid uid-of-the-deleted; plan has plan-uid: compare them, and edit that one"},
		{name: "a copy of a plan that was deleted", of: "uid-of-the-deleted", copied: 3},
		{name: "in place of one that has ended since", present: present("fleet", &now), checked: gr("plan"), wrong: "gr fleet was changed since this plan was checked"},
		{name: "of a gr that follows another since", checked: gr("other"), wrong: "gr fleet was changed since this plan was checked"},
		{name: "of a gr that has another spec since", checked: edited, wrong: "gr fleet was changed since this plan was checked"},
		{name: "of a gr that was created again since", checked: recreated, wrong: "gr fleet was changed since this plan was checked"},
		{name: "an old copy", present: later(), copied: 2, wrong: "copy of generation 2 of UpgradePlan plan, which has 3 now"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := object(t, fleet(2, always("driver")), 1, 0)
			file.ResourceVersion, file.Status.Time = "1", &now
			file.Generation, file.UID = tt.copied, cmp.Or(tt.of, "plan-uid")
			p, err := Parse([]byte(text(t, file)), upgradeplan.DefaultBook())
			if err != nil {
				t.Fatal(err)
			}
			present := Current{Gr: gr(tt.follows), Stored: tt.present}
			checked := Current{Gr: cmp.Or(tt.checked, present.Gr), Stored: tt.present}
			if tt.since {
				checked.Stored = nil
			}
			got, err := p.Stored(present, checked, tt.step)
			if tt.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wrong) {
					t.Errorf("got %v, want %q", err, tt.wrong)
				}
				return
			}
			if err != nil || got.Name != "plan" || len(got.Spec.Batches) != 2 || got.OwnerReferences[0].UID != "uid" {
				t.Fatalf("got %+v, %v", got, err)
			}
			manual := got.Spec.Batches[0].Approval == topsv1.ApprovalManual && got.Spec.Batches[1].Approval == topsv1.ApprovalManual
			if manual != tt.step || p.Object.Spec.Batches[0].Approval == topsv1.ApprovalManual {
				t.Errorf("batches %+v, of the file %+v", got.Spec.Batches, p.Object.Spec.Batches)
			}
			if is := tt.present; is != nil && (got.UID != is.UID || got.ResourceVersion != is.ResourceVersion || len(got.Finalizers) != 1 || !got.Status.Time.Equal(is.Status.Time)) {
				t.Errorf("it is not in place of %+v: %+v", is, got)
			} else if is == nil && (got.UID != "" || got.ResourceVersion != "" || got.Status.Time != nil) {
				t.Errorf("a new one has the identity or the result of the file: %+v", got)
			}
		})
	}
}

// Two people store different plans with the same name at the same time. Each is told which plan the gr follows.
func TestWhoseOfTwoPlansOfANameIsFollowed(t *testing.T) {
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "fleet", Annotations: map[string]string{topsv1.AnnotationUpgradePlan: "plan"}}}
	stored := func(uid types.UID, generation int64) *topsv1.UpgradePlan {
		return &topsv1.UpgradePlan{ObjectMeta: metav1.ObjectMeta{Name: "plan", UID: uid, Generation: generation}}
	}
	conflict, mine := errors.New("conflict"), stored("a", 1)
	for name, tt := range map[string]struct {
		gr  *topsv1.GcuResource
		now *topsv1.UpgradePlan
		err error
		// says is part of the error, empty if there is none.
		says string
	}{
		"mine":                               {gr, mine, nil, ""},
		"that of another, written over mine": {gr, stored("a", 2), nil, "follows UpgradePlan plan, but another client changed that"},
		"that of another, created again":     {gr, stored("b", 1), nil, "follows UpgradePlan plan, but another client changed that"},
		"one that is gone":                   {gr, nil, nil, "follows UpgradePlan plan, but another client changed that"},
		"another upgrade came later":         {&topsv1.GcuResource{}, stored("a", 2), nil, ""},
		"mine, by another request":           {gr, mine, conflict, "conflict; but gr fleet follows UpgradePlan plan, which is your plan"},
		"another upgrade came first":         {&topsv1.GcuResource{}, mine, conflict, ""},
		"that of another, and not by me":     {gr, stored("a", 2), conflict, ""},
	} {
		switch got := Overtaken(Current{Gr: tt.gr, Stored: tt.now}, mine, tt.err); {
		case (got == nil) != (tt.says == ""), got != nil && !strings.Contains(got.Error(), tt.says):
			t.Errorf("%s: %v, want %q", name, got, tt.says)
		}
	}
}

func TestAPlanIsForOneGr(t *testing.T) {
	p, err := Read(object(t, fleet(1, always("driver")), 1, 0), upgradeplan.DefaultBook())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.For("fleet"); err != nil {
		t.Error(err)
	}
	if err := p.For("other"); err == nil || err.Error() != "the plan is for gr fleet, not other" {
		t.Error(err)
	}
}

// Contract 93: a result is read after months, when an operator has other rules.
func TestAResultIsReadUnderLaterRules(t *testing.T) {
	o := object(t, fleet(2, always("driver")), 5, 0)
	o.Spec.Jobs[0].Stages = append(o.Spec.Jobs[0].Stages, []string{"node_record"}) // an action that the book has no longer, and the order of then
	o.Status = topsv1.UpgradePlanStatus{Time: &metav1.Time{}, ObservedGeneration: o.Generation, Done: 2}
	if _, err := Read(o, upgradeplan.DefaultBook()); err == nil {
		t.Fatal("the plan can be run")
	}
	r := ResultOf(&topsv1.GcuResource{}, o, true)
	if r.Problem != "" || len(r.Nodes) != 2 || !slices.ContainsFunc(r.Nodes[0].Tasks.Done, func(task string) bool { return strings.HasSuffix(task, "_node_record") }) {
		t.Errorf("the result is %+v", r)
	}
	o.Status.RolledBackTime = &metav1.Time{}
	follows := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{topsv1.AnnotationUpgradePlan: o.Name}}}
	if r := ResultOf(follows, o, false); r.InForce || r.RolledBack == nil {
		t.Errorf("of a plan that was rolled back: %+v", r)
	}
	o.Spec.Batches = nil
	if r := ResultOf(&topsv1.GcuResource{}, o, true); !strings.Contains(r.Problem, "no batches") {
		t.Errorf("the problem is %q", r.Problem)
	}
}

// Under OTA a request starts its node at once, so a step that no batch takes is not promised.
//
// Contract 96.
func TestUnderOTANoBatchAwaitsAnApproval(t *testing.T) {
	byFile := object(t, fleet(2, always("driver")), 1, 0)
	byFile.Spec.Batches[1].Approval = topsv1.ApprovalManual
	for _, tt := range []struct {
		name, key, strategy string
		plan                *topsv1.UpgradePlan
		step                bool
		wrong               string
	}{
		{"step by step", topsv1.AnnotationUpdateStrategy, "OTA", object(t, fleet(2, always("driver")), 1, 0), true, "batch batch-1 would await an approval"},
		{"step by step, by OpenYurt's key", topsv1.OpenYurtAnnotationUpdateStrategy, "ota", object(t, fleet(2, always("driver")), 1, 0), true, "gr fleet has strategy OTA"},
		{"by the file", topsv1.AnnotationUpdateStrategy, "OTA", byFile, false, "batch batch-2 would await an approval"},
		{"without an approval", topsv1.AnnotationUpdateStrategy, "OTA", object(t, fleet(2, always("driver")), 1, 0), false, ""},
		{"not under OTA", topsv1.AnnotationUpdateStrategy, "AdvancedRollingUpdate", byFile, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := Read(tt.plan, upgradeplan.DefaultBook())
			if err != nil {
				t.Fatal(err)
			}
			now := Current{Gr: &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "fleet", Annotations: map[string]string{tt.key: tt.strategy}}}}
			if _, err := p.Stored(now, now, tt.step); tt.wrong == "" && err != nil || tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)) {
				t.Errorf("got %v, want %q", err, tt.wrong)
			}
		})
	}
}

// Another client may change only annotations, which leaves the generation as it is.
func TestWhetherAGrIsUnchanged(t *testing.T) {
	gr := func(generation int64, plan, only string) *topsv1.GcuResource {
		return &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "fleet", Generation: generation,
			Annotations: map[string]string{topsv1.AnnotationUpgradePlan: plan, topsv1.AnnotationUpgradeOnly: only}}}
	}
	for _, tt := range []struct {
		name string
		now  *topsv1.GcuResource
		want bool
	}{
		{"the same", gr(1, "plan", ""), true},
		{"another spec", gr(2, "plan", ""), false},
		{"another plan", gr(1, "", ""), false},
		{"another limit", gr(1, "plan", "nodes=a"), false},
	} {
		if got := Unchanged(gr(1, "plan", ""), tt.now); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}
