package dashboard

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
)

func TestWhatAnActionWouldDo(t *testing.T) {
	b := serve(t, &fleet{resources: []Resource{rolling()}})
	for _, tt := range []struct {
		name, query string
		has, lacks  []string
	}{
		{"approve: the revision, its images and how many nodes", "verb=approve&gr=my-gr&target=main",
			[]string{`data-seen="r2"`, ">r2<", ">driver:2<", "<dt>Nodes that may be started</dt><dd>3: n2, n3, n4</dd>", `wave main is approved\u202e`}, []string{"data-refused"}},
		{"hold: the node and its state", "verb=hold&gr=my-gr&target=n3&lang=zh", []string{"<dd>n3</dd>", "<dd>被阻止 · 节点被保留</dd>"}, []string{"driver:2"}},
		{"retry: the node of the task", "verb=retry&gr=my-gr&target=n2_driver_verify", []string{"<dd>failed · OperationFailed</dd>"}, nil},
		{"resume: how many wait, and failed", "verb=resume&gr=my-gr", []string{"<dt>Nodes that wait</dt><dd>2</dd>", "<dt>failed</dt><dd>1</dd>"}, []string{"driver:2"}},
		{"what the API server refuses cannot be confirmed", "verb=approve&gr=my-gr&target=refused", []string{"data-refused", `<span lang="en">admission webhook &#34;no&#34; denied the request\u202e</span>`, ">r2<"}, []string{"data-seen"}},
		{"of a gr that is gone nothing is known", "verb=pause&gr=gone", []string{"data-seen"}, []string{"Nodes that wait"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, answer := b.get("/dry-run?" + tt.query)
			for _, want := range tt.has {
				if code != http.StatusOK || !strings.Contains(answer, want) {
					t.Errorf("%d: it lacks %s:\n%s", code, want, answer)
				}
			}
			for _, wrong := range tt.lacks {
				if strings.Contains(answer, wrong) {
					t.Errorf("it has %s:\n%s", wrong, answer)
				}
			}
		})
	}
	if code, _ := b.get("/dry-run?verb=delete&gr=my-gr"); code != http.StatusBadRequest {
		t.Errorf("an unknown verb: %d", code)
	}
}

func TestFactsOfARollback(t *testing.T) {
	two, none := 2, 0
	r := &Resource{Status: display.Status{Rollout: &display.Rollout{}}}
	for _, tt := range []struct {
		name   string
		dryRun DryRun
		want   []fact
	}{
		{"the nodes that go back", DryRun{Revision: "r1", Changes: []string{"driver.version: 2 -> 1"}, Nodes: &two, Names: "a, b"}, []fact{
			{"revision", []string{"r1"}, true}, {"changes", []string{"driver.version: 2 -> 1"}, true}, {"nodes-rollback", []string{"2: a, b"}, false}}},
		{"no node", DryRun{Revision: "r1", Nodes: &none}, []fact{{"revision", []string{"r1"}, true}, {"nodes-rollback", []string{"0"}, false}}},
		{"nodes that are not known", DryRun{Revision: "r1", NotShown: []string{"forbidden"}}, []fact{{"revision", []string{"r1"}, true}, {"unknown", []string{"forbidden"}, true}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, factsOf(texts["en"], r, Action{Verb: Rollback}, &tt.dryRun)); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResumeIsOfferedWhereItDoesSomething(t *testing.T) {
	for want, all := range map[bool][]display.Rollout{
		false: {{}, {Nodes: display.Counts{Pending: 1}}},
		true:  {{Paused: true}, {Halted: true}, {Nodes: display.Counts{Failed: 1}}, {Rollback: &display.RolledBack{Rejected: "r2"}}},
	} {
		for _, ro := range all {
			if s := sectionOf(Resource{Status: display.Status{Rollout: &ro}}, verbs{Resume: true}, ""); s.May[Resume] != want {
				t.Errorf("%+v: resume is offered: %t", ro, s.May[Resume])
			}
			going := display.Status{Rollout: &ro, Outcome: display.Outcome{Reason: status.ReasonDeleting}}
			if s := sectionOf(Resource{Status: going}, verbs{Pause: true, Resume: true, Approve: true, Rollback: true}, ""); s.May[Pause] || s.May[Resume] || s.May[Approve] || s.May[Rollback] {
				t.Errorf("%+v: what is refused of a gr that is being deleted is offered: %v", ro, s.May)
			}
		}
	}
}
