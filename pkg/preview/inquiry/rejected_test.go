package inquiry

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/revision"
	"github.com/topsops/gcu-operator/pkg/preview"
)

// bad returns a gr whose spec failed: another exporter and another volcano.
func bad() *topsv1.GcuResource {
	return gr(func(s *topsv1.GcuResourceSpec) {
		s.Exporter.Version, s.Volcano.Scheduler = "2", &topsv1.BaseFields{Version: "2"}
	})
}

// rejecting is a site at which the spec of gr(nil) is deployed in place of that of bad, by a rollout of
// the gr with the given UID.
func rejecting(t *testing.T, uid types.UID) Predictor {
	t.Helper()
	rejected, err := revision.Name(bad())
	if err != nil {
		t.Fatal(err)
	}
	owner := controlledBy(topsv1.GcuResourceKind, "fleet", uid)
	owner[0].APIVersion = topsv1.GroupVersion.String()
	rollout := &topsv1.DaemonRollout{Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: topsv1.GcuResourceKind, Name: "fleet"}}}
	rollout.Namespace, rollout.Name, rollout.OwnerReferences = namespace, "fleet", owner
	rollout.Status.Rollback = &topsv1.RolloutRollback{From: "r2", To: "r1", RejectedRevision: rejected, GcuResourceRevision: "fleet-1", Message: "3 nodes failed"}
	return site(t, gr(nil), nil, rollout)
}

// What is deployed is not the spec of the gr while that is rejected.
func TestThePreviewOfARejectedSpec(t *testing.T) {
	type changes = map[string]preview.Change
	both := []string{"a", "b"}
	for _, tt := range []struct {
		name    string
		wanted  *topsv1.GcuResource
		want    changes
		nodes   []string
		blocked string
	}{
		{"that of the gr: nothing happens", bad(), changes{}, nil, "is rejected, fleet-1 is deployed in its place"},
		{"back to what is deployed: nothing happens", gr(nil), changes{}, nil, ""},
		{"another version of the exporter; volcano as it is deployed", gr(func(s *topsv1.GcuResourceSpec) { s.Exporter.Version = "3" }),
			changes{"exporter": preview.Upgrade}, both, ""},
		{"volcano as it was rejected", gr(func(s *topsv1.GcuResourceSpec) { s.Volcano.Scheduler = &topsv1.BaseFields{Version: "2"} }),
			changes{"volcano": preview.Update}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := rejecting(t, "uid-fleet")
			got, nodes := become(t, a, bad(), tt.wanted)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("components (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.nodes, nodes); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			told, err := a.Ask(t.Context(), preview.Question{Present: bad(), Wanted: tt.wanted})
			if err != nil || !strings.Contains(told.Blocked, tt.blocked) || (tt.blocked == "") != (told.Blocked == "") {
				t.Errorf("it is blocked by %q, %v, want %q", told.Blocked, err, tt.blocked)
			}
		})
	}
}

// A rollout that is left of an earlier gr of that name rejects nothing; until it is deleted no node is upgraded, and the preview says so.
func TestTheRejectionOfAnEarlierGcuResourceIsOver(t *testing.T) {
	a := rejecting(t, "uid-earlier")
	got, nodes := become(t, a, gr(nil), bad())
	if diff := cmp.Diff(map[string]preview.Change{"exporter": preview.Upgrade, "volcano": preview.Update}, got); diff != "" || len(nodes) != 0 {
		t.Errorf("nodes %v, components (-want +got):\n%s", nodes, diff)
	}
	if blocked := ask(t, a, gr(nil), bad()).Blocked; !strings.Contains(blocked, "waiting until the garbage collector has deleted the DaemonRollout of the former one") {
		t.Errorf("nothing is upgraded: %q", blocked)
	}
}
