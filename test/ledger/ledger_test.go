package ledger

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/report"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/test/apiserver"
	"github.com/topsops/gcu-operator/test/fixture"
)

// most is the maximum size of a stored DaemonRollout. etcd takes no more than 1.5 MiB at once.
const most = 1 << 20

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m))
}

const uid = types.UID("01234567-89ab-cdef-0123-456789abcdef")

// largest returns a rollout with nodes and members of long names that may upgrade all of its
// nodes at once.
func largest(nodes, members int) rollout.Input {
	in := rollout.Input{Now: fixture.Epoch, Revision: "0123456789", Deadlines: rollout.DefaultDeadlines,
		Settings: daemonset.Settings{Strategy: daemonset.AdvancedRollingUpdate, MaxUnavailable: intstr.FromString("100%")},
		Ledger:   rollout.Ledger{Revision: "0123456789"}}
	for i := range members {
		in.Members = append(in.Members, rollout.Member{Key: strings.Repeat("n", 63) + "/" + long(63, i), Target: "0123456789"})
	}
	for i := range nodes {
		n := rollout.Node{Name: long(253, i), UID: uid, Machine: strings.Repeat("e", 32), Ready: true, ReadySince: fixture.Epoch.Add(-time.Hour)}
		for m := range members {
			n.Pods = append(n.Pods, rollout.Pod{Node: n.Name, Member: m, Name: "pod", UID: uid, Version: "1", Revision: "old", Available: true})
		}
		in.Nodes = append(in.Nodes, n)
	}
	return in
}

// long returns the name of a thing, of this length.
func long(length, i int) string { return fmt.Sprintf("%0*d", length, i) }

// grown returns slots as large as they become.
func grown(in *rollout.Input, slots []rollout.Slot) []rollout.Slot {
	now := in.Now.Truncate(time.Second)
	for i := range slots {
		s := &slots[i]
		s.Queued = false
		s.Progress, s.Newest, s.Idle, s.Turn = now, now, math.MaxInt32*time.Second, math.MaxInt64
		s.Pod, s.PodVersion, s.Operation = uid, strings.Repeat("9", 20), strings.Repeat("o", 63)
		s.Members = nil
		for _, m := range in.Members {
			s.Members = append(s.Members, m.Key)
		}
	}
	return slots
}

// failed returns the failures of slots.
func failed(in *rollout.Input, slots []rollout.Slot) (failures []rollout.Failure) {
	for _, s := range slots {
		f := rollout.Failure{Node: s.Node, UID: s.UID, Machine: strings.Repeat("e", 32), Reason: rollout.ReasonProgressDeadlineExceeded,
			Message: strings.Repeat("m", 8000), Since: in.Now, Requested: in.Now}
		for _, m := range in.Members {
			f.Targets = append(f.Targets, rollout.Target{Member: m.Key, Revision: m.Target})
		}
		failures = append(failures, f)
	}
	return failures
}

// fullRecord returns a record of 40 KiB.
func fullRecord() []topsv1.RolloutRecordEntry {
	entry := topsv1.RolloutRecordEntry{Time: metav1.NewTime(fixture.Epoch), Event: topsv1.RecordNodesFailed, Message: strings.Repeat("m", 900)}
	return slices.Repeat([]topsv1.RolloutRecordEntry{entry}, 40)
}

func TestTheLargestLedgerIsStored(t *testing.T) {
	server := apiserver.Shared(t)
	c := server.Client(t, apiserver.Operator)
	for i, members := range []int{1, 20} {
		in := largest(3000, members)
		for name, failing := range map[string]bool{"in flight": false, "failed": true} {
			t.Run(fmt.Sprintf("of %d members, %s", members, name), func(t *testing.T) {
				d := rollout.Plan(in)
				slots := len(d.Ledger.Slots)
				if d.Ledger.Slots = grown(&in, d.Ledger.Slots); failing {
					d.Ledger.Slots, d.Ledger.Failures = nil, failed(&in, d.Ledger.Slots)
				}
				r := &topsv1.DaemonRollout{ObjectMeta: metav1.ObjectMeta{Namespace: apiserver.Namespace, Name: fmt.Sprintf("r%d-%t", i, failing)},
					Spec: topsv1.DaemonRolloutSpec{TargetRef: topsv1.TargetRef{Kind: "GcuResource", Name: "gcu"}}}
				if err := c.Create(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				r.Status = report.Status(r.Status, r.Generation, in, d)
				r.Status.Record = fullRecord()
				if err := c.Status().Update(t.Context(), r); err != nil {
					t.Fatalf("%d slots are not stored: %v", slots, err)
				}
				stored, managed := sizeOf(t, r), sizeOf(t, r.ManagedFields)
				t.Logf("%d slots take %d bytes, of which %d are managedFields", slots, stored, managed)
				if stored > most || stored < most/2 {
					t.Errorf("%d slots take %d bytes, want just below %d", slots, stored, most)
				}
				if managed > 8000 {
					t.Errorf("managedFields take %d bytes: %s", managed, r.ManagedFields)
				}
			})
		}
	}
}

func sizeOf(t *testing.T, what any) int {
	t.Helper()
	text, err := json.Marshal(what)
	if err != nil {
		t.Fatal(err)
	}
	return len(text)
}
