package operation

import (
	"slices"
	"time"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/drain/eviction"
)

// tick is the longest time between two passes over an operation that has a deadline, and
// LongestBreak the longest that counts as work.
const (
	tick         = 30 * time.Second
	LongestBreak = 4 * tick
)

// standardLimit is how long an operation may take by default.
const standardLimit = 2 * time.Hour

// limits are the deadlines of an operation with the defaults filled in, except operation, which is 0 for limitOfAll.
type limits struct {
	precheck, prepull, progress, restart, verify, soak, lost, silence, operation, drain time.Duration
}

func limitsOf(op *topsv1.NodeOperation) limits {
	d, drain := op.Deadlines, int32(0)
	if op.Drain != nil {
		drain = op.Drain.TimeoutSeconds
	}
	return limits{
		precheck: seconds(d.PrecheckSeconds, 120), prepull: seconds(d.PrepullSeconds, 900),
		progress: seconds(d.ProgressSeconds, 600), restart: seconds(d.RestartSeconds, 420),
		verify: seconds(d.VerifySeconds, 300), soak: seconds(d.SoakSeconds, 60),
		lost: seconds(d.LostSeconds, 900), silence: seconds(d.AgentSilenceSeconds, 180),
		operation: seconds(d.OperationSeconds, 0), drain: seconds(drain, eviction.DefaultPolicy().TimeoutSeconds),
	}
}

func seconds(given, otherwise int32) time.Duration {
	if given == 0 {
		given = otherwise
	}
	return time.Duration(given) * time.Second
}

func latest(of ...time.Time) time.Time { return slices.MaxFunc(of, time.Time.Compare) }
