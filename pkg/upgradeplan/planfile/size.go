package planfile

import (
	"fmt"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// How much a plan may have, as in its CRD, which a file has not passed yet: the time to check a job grows with the square
// of its tasks.
const (
	maxJobs    = 100
	maxStages  = 64
	maxTasks   = 64 // in a stage
	maxRemoves = 64
)

// checkSize returns an error if the jobs of a plan are too many or too large to be checked.
func checkSize(spec *topsv1.UpgradePlanSpec) error {
	if n := len(spec.Jobs); n > maxJobs {
		return fmt.Errorf("it has %d jobs: a plan has at most %d", n, maxJobs)
	}
	for i := range spec.Jobs {
		j := &spec.Jobs[i]
		if n := len(j.Stages); n > maxStages {
			return fmt.Errorf("job %s has %d stages: a job has at most %d", j.Name, n, maxStages)
		}
		if n := len(j.Removes); n > maxRemoves {
			return fmt.Errorf("job %s removes %d components: it has at most %d", j.Name, n, maxRemoves)
		}
		for _, stage := range j.Stages {
			if n := len(stage); n > maxTasks {
				return fmt.Errorf("job %s has a stage of %d tasks: it has at most %d", j.Name, n, maxTasks)
			}
		}
	}
	return nil
}
