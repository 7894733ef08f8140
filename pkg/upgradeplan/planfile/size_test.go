package planfile

import (
	"fmt"
	"slices"
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
	parse := func(jobs []topsv1.PlannedJob, batches []topsv1.PlannedBatch) error {
		plan := object(t, fleet(1, always("driver")), 1, 0)
		plan.Spec.Jobs, plan.Spec.Batches = jobs, append(plan.Spec.Batches, batches...)
		_, err := Parse([]byte(text(t, plan)), upgradeplan.DefaultBook())
		return err
	}
	for says, err := range map[string]error{
		"spec.jobs has 101 items: at most 100 are accepted":            parse(slices.Repeat([]topsv1.PlannedJob{{Stages: many(1)}}, 101), nil),
		"spec.jobs[0].stages has 65 items: at most 64 are accepted":    parse([]topsv1.PlannedJob{{Name: "j", Stages: many(65)}}, nil),
		"spec.jobs[0].stages[0] has 65 items: at most 64 are accepted": parse([]topsv1.PlannedJob{{Name: "j", Stages: []topsv1.PlannedStage{wide(65)}}}, nil),
		"spec.jobs[0].removes has 65 items: at most 64 are accepted":   parse([]topsv1.PlannedJob{{Name: "j", Stages: many(1), Removes: wide(65)}}, nil),
		"spec.batches has 101 items: at most 100 are accepted":         parse([]topsv1.PlannedJob{}, slices.Repeat([]topsv1.PlannedBatch{{Jobs: []topsv1.PlannedNodes{}}}, 100)),
	} {
		if err == nil || err.Error() != "the file is not a plan: "+says {
			t.Errorf("%v, want %s alone", err, says)
		}
	}
	if err := parse([]topsv1.PlannedJob{{Name: "j", Stages: append(many(63), wide(64))}}, nil); err == nil || strings.Contains(err.Error(), "at most 64") {
		t.Errorf("the largest plan: %v", err)
	}
}
