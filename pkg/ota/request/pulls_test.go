package request

import (
	"fmt"
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

func TestAsManyPullsAreReportedAsTheAPITakes(t *testing.T) {
	var many []topsv1.ImagePull
	for i := range 3 * keptPulls {
		many = LastPulls(many, []topsv1.ImagePull{{ID: fmt.Sprint(i)}})
	}
	if len(many) != keptPulls || many[0].ID != fmt.Sprint(2*keptPulls) {
		t.Errorf("%d pulls from %s", len(many), many[0].ID)
	}
}
