package status

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

// The API server accepts at most 32768 bytes of a standard condition: a longer message would also prevent that the
// failure is reported.
func TestConditionsAreBounded(t *testing.T) {
	var each []error
	for i := range 2000 {
		each = append(each, fmt.Errorf("labeling node node-%d: the API server refuses", i))
	}
	gr := world.NewGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}})
	long := world.New(t, gr.DeepCopy(), 1)
	long.Component("driver").Failure = &state.Failure{Reason: state.ReasonApplyFailed, Message: errors.Join(each...).Error()}
	for name, status := range map[string]topsv1.GcuResourceStatus{
		"an error for each node":        DescribeFailure(gr, errors.Join(each...), world.Noon),
		"a long failure of a component": next(long),
	} {
		degraded := meta.FindStatusCondition(status.StandardConditions, ConditionDegraded)
		if degraded == nil || !strings.Contains(degraded.Message, "labeling node node-0: ") {
			t.Fatalf("%s: %v", name, degraded)
		}
		for _, c := range status.StandardConditions {
			if len(c.Message) > 32768 {
				t.Errorf("%s: the message of %s has %d bytes", name, c.Type, len(c.Message))
			}
		}
	}
}
