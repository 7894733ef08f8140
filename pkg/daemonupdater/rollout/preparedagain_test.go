package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// scopeInput returns a group of a driver, a toolkit and an exporter with one node, a, whose pods are
// all outdated.
func scopeInput(job *Operation) Input {
	node := withJob(nodeOf("a", oldHash, oldHash, oldHash), job)
	in := inputOf(1, node)
	in.Members = []Member{{Key: "kube-system/driver", Target: newHash, Heavy: true}, {Key: "kube-system/toolkit", Target: newHash, Heavy: true},
		{Key: "kube-system/exporter", Target: newHash}}
	return in
}

// jobFor returns a prepared operation for members.
func jobFor(members ...string) *Operation {
	job := &Operation{ID: "op-a", Ours: true, Prepared: true, Targets: map[string]string{}}
	for _, m := range members {
		job.Targets["kube-system/"+m] = newHash
	}
	return job
}

// An operation is granted only if it does what its node needs now: an edit after its preparation may
// have narrowed or widened that.
func TestAPreparedOperationIsReplacedWhenTheScopeChanged(t *testing.T) {
	narrowed := scopeInput(jobFor("driver", "toolkit", "exporter"))
	narrowed.Members[1].LeftOut = true
	lighter := scopeInput(jobFor("driver", "toolkit", "exporter"))
	lighter.Members[2].LeftOut = true
	underSlot := scopeInput(jobFor("driver", "toolkit", "exporter")).slots(operating(heavyNode("a")))
	underSlot.Members[1].LeftOut = true
	granted := scopeInput(jobFor("driver", "toolkit", "exporter")).slots(operating(heavyNode("a")))
	granted.Members[1].LeftOut = true
	granted.Nodes[0].Operation.Granted, granted.Nodes[0].Disturbed = true, true
	atTarget := scopeInput(jobFor("driver", "exporter"))
	atTarget.Nodes[0].Pods[1].Revision = newHash
	restarts := scopeInput(jobFor("driver", "exporter"))
	restarts.Nodes[0].Pods[1].Revision, restarts.Nodes[0].NeedsRestart, restarts.Members[1].Restarts = newHash, true, true
	leftToRestart := scopeInput(jobFor("driver", "toolkit"))
	leftToRestart.Nodes[0].Pods[1].Revision, leftToRestart.Nodes[0].NeedsRestart = newHash, true
	leftToRestart.Members[1].Restarts, leftToRestart.Members[1].LeftOut = true, true
	leftToVerify := scopeInput(jobFor("driver", "toolkit"))
	leftToVerify.Nodes[0].Pods[1].Revision, leftToVerify.Nodes[0].Pods[1].Unverified, leftToVerify.Members[1].LeftOut = newHash, true, true
	otherPolicy := scopeInput(jobFor("driver", "toolkit", "exporter"))
	otherPolicy.Nodes[0].Operation.OldPolicy = true
	grantedBefore := scopeInput(jobFor("driver", "toolkit", "exporter")).slots(operating(heavyNode("a")))
	grantedBefore.Nodes[0].Operation.OldPolicy, grantedBefore.Nodes[0].Operation.Granted, grantedBefore.Nodes[0].Disturbed = true, true, true
	along := scopeInput(jobFor("driver", "toolkit", "exporter"))
	along.Members[2].LeftOut, along.Members[2].ReplacedWithOthers = true, true
	removed := scopeInput(jobFor("driver", "toolkit", "exporter", "devicePlugin"))
	tests := []struct {
		name string
		in   Input
		want []string
	}{
		{"a heavy component was left out", narrowed, []string{"a:prepare"}},
		{"a light component was left out", lighter, []string{"a:prepare"}},
		{"another heavy component is outdated since: the node would be drained twice", scopeInput(jobFor("driver", "exporter")), []string{"a:prepare"}},
		{"the runtime has to be restarted since", restarts, []string{"a:prepare"}},
		{"a toolkit was left out that is at its target, and for which the runtime would be restarted", leftToRestart, []string{"a:prepare"}},
		{"one that would be verified", leftToVerify, []string{"a:prepare"}},
		{"the policy says something else about the drain, or what is verified", otherPolicy, []string{"a:prepare"}},
		{"a granted operation keeps the policy that it was made under", grantedBefore, nil},
		{"a light component that was left out is replaced along with the driver anyway", along, []string{"a:grant op-a"}},
		{"a component was removed", removed, []string{"a:prepare"}},
		{"what the logic book does not know is never part of an operation", scopeInput(jobFor("driver", "toolkit")), []string{"a:grant op-a"}},
		{"nothing changed", scopeInput(jobFor("driver", "toolkit", "exporter")), []string{"a:grant op-a"}},
		{"the rest is at its target", atTarget, []string{"a:grant op-a"}},
		{"under a slot, not granted yet", underSlot, []string{"a:abort op-a"}},
		{"a granted operation goes on", granted, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, operationChangesOf(Plan(test.in)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}
