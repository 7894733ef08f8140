package daemonupdater

import (
	"math/rand/v2"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/simapi"
)

// A plan is done when all nodes of all jobs in all batches have what it gives them; the checks of the simulation watch
// over each batch, and over the soak of each wave.

func TestAPlanIsDoneJobByJob(t *testing.T) {
	for name, soak := range map[string]int32{"without waves": 0, "with a wave that soaks": 600} {
		t.Run(name, func(t *testing.T) {
			schedule(t, []string{"exporter", "gfd"}, func(s *simSchedule) {
				for _, key := range s.g.sets {
					simapi.Edit(s.api, key, func(ds *appsv1.DaemonSet) { ds.Labels[topsv1.LabelComponent] = key.Name })
				}
				if soak > 0 {
					s.putPolicy(func(spec *topsv1.UpgradePolicySpec) {
						spec.Waves = []topsv1.Wave{{Name: "canary", Size: ptr.To(intstr.FromInt32(1)), SoakSeconds: soak}}
					})
				}
				s.getsAll("good-1")
				s.plans = rand.New(rand.NewPCG(1, 15))
				spec := s.planOf(s.g, []string{"n00"}, func(component string) bool { return component == "gfd" })
				both := s.planOf(s.g, []string{"n01", "n02"}, func(string) bool { return true })
				spec.Batches[0].Jobs = append(spec.Batches[0].Jobs, topsv1.PlannedNodes{Job: "both", Nodes: []string{"n01", "n02"}})
				both.Jobs[0].Name = "both"
				spec.Jobs = append(spec.Jobs, both.Jobs[0])
				began := s.now
				s.follow(s.g, spec)
				s.worksUntil(s.a, "the plan is done", time.Hour, func() bool {
					s.approveBatch(s.g)
					plan := simapi.Get[*topsv1.UpgradePlan](s.api, simPlanKey(s.g))
					return int(plan.Status.Done) == len(s.hosts)
				})
				if s.replaced("n00", "good-1") != 1 || s.replaced("n01", "good-1") != 2 || s.replaced("n02", "good-1") != 2 {
					s.violate("the plan is done: %s", s.describe())
				}
				if took := s.now.Sub(began); took < time.Duration(soak)*time.Second {
					s.violate("the plan is done after %s, and a wave soaks for %d s", took, soak)
				}
			})
		})
	}
}

// TestABatchWithNoNodeLeftAsksForNoApproval: the nodes of the next one start, also if the batch was passed before while its node was
// offline, and still awaited its approval then.
func TestABatchWithNoNodeLeftAsksForNoApproval(t *testing.T) {
	schedule(t, []string{"exporter", "gfd"}, func(s *simSchedule) {
		for _, key := range s.g.sets {
			simapi.Edit(s.api, key, func(ds *appsv1.DaemonSet) { ds.Labels[topsv1.LabelComponent] = key.Name })
		}
		s.getsAll("good-1")
		s.plans = rand.New(rand.NewPCG(1, 15))
		spec := s.planOf(s.g, []string{"n00", "n01", "n02"}, func(string) bool { return true })
		job := spec.Jobs[0].Name
		spec.Before, spec.Batches = nil, []topsv1.PlannedBatch{
			{Name: "first", Approval: topsv1.ApprovalManual, Jobs: []topsv1.PlannedNodes{{Job: job, Nodes: []string{"n00"}}}},
			{Name: "second", Approval: topsv1.ApprovalAutomatic, Jobs: []topsv1.PlannedNodes{{Job: job, Nodes: []string{"n01", "n02"}}}},
		}
		s.follow(s.g, spec)
		s.host("n00").up = false
		s.worksUntil(s.a, "the first batch is passed", 10*time.Minute, func() bool {
			return simCompleted(s.rolloutOf(s.g.id), "plan-fleet/first") != nil
		})
		s.works(s.a, time.Minute)
		if s.replaced("n01", "good-1") > 0 {
			s.violate("n01 is upgraded, and the batch before its own is not approved")
		}
		s.api.Remove(simNodeKey("n00"))
		s.worksUntil(s.a, "the second batch is done", time.Hour, func() bool {
			return s.replaced("n01", "good-1") == 2 && s.replaced("n02", "good-1") == 2
		})
	})
}
