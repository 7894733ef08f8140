package request

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/strictyaml"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// ReadPlan reads a body with the plan that a gr is to follow: a file as kubectl gcu upgrade --plan takes it,
// YAML or JSON, without YAML aliases. It returns the plan and the upgrade that it is.
func ReadPlan(body []byte, gr string) (*planfile.Plan, *Desired, error) {
	plan, err := planfile.Parse(body, upgradeplan.DefaultBook())
	if err == nil {
		err = plan.For(gr)
	}
	if err != nil {
		return nil, nil, BadRequest("%.10000s", err.Error())
	}
	blueprint := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: gr}}
	if err := strictyaml.UnmarshalJSON(plan.Object.Spec.Wanted.Raw, &blueprint.Spec); err != nil {
		return nil, nil, BadRequest("spec.wanted: %v", err)
	}
	return plan, &Desired{Blueprint: blueprint, whole: true, plan: plan.Object.Name}, nil
}
