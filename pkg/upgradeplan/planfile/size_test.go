package planfile

import (
	"fmt"
	"strings"
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// The time to check a job grows with the square of its tasks. A stored plan is bounded by its CRD, a file by nothing else.
func TestAPlanIsNotLargerThanItsCRDAllows(t *testing.T) {
	many := func(n int) (stages []topsv1.PlannedStage) {
		for i := range n {
			stages = append(stages, topsv1.PlannedStage{fmt.Sprintf("c%d_replace", i)})
		}
		return stages
	}
	wide := func(n int) (stage topsv1.PlannedStage) {
		for i := range n {
			stage = append(stage, fmt.Sprintf("c%d_replace", i))
		}
		return stage
	}
	for says, jobs := range map[string][]topsv1.PlannedJob{
		"it has 101 jobs: a plan has at most 100":          make([]topsv1.PlannedJob, 101),
		"job j has 65 stages: a job has at most 64":        {{Name: "j", Stages: many(65)}},
		"job j has a stage of 65 tasks: it has at most 64": {{Name: "j", Stages: []topsv1.PlannedStage{wide(65)}}},
		"job j removes 65 components: it has at most 64":   {{Name: "j", Removes: wide(65)}},
	} {
		plan := &topsv1.UpgradePlan{Spec: topsv1.UpgradePlanSpec{GcuResource: "gr", Revision: "r", Jobs: jobs}}
		if _, err := Read(plan, upgradeplan.DefaultBook()); err == nil || err.Error() != says {
			t.Errorf("%v, want %s alone", err, says)
		}
	}
	plan := &topsv1.UpgradePlan{Spec: topsv1.UpgradePlanSpec{GcuResource: "gr", Revision: "r", Jobs: []topsv1.PlannedJob{{Name: "j", Stages: append(many(63), wide(64))}}}}
	if _, err := Read(plan, upgradeplan.DefaultBook()); err == nil || strings.Contains(err.Error(), "at most 64") {
		t.Errorf("the largest plan: %v", err)
	}
}
