package request

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
	"github.com/topsops/gcu-operator/pkg/upgradeplan/planfile"
)

// ReadPlan reads a body with the plan that a gr is to follow: a file as kubectl gcu upgrade --plan takes it,
// YAML or JSON, without YAML aliases. It returns the plan and the upgrade that it is.
func ReadPlan(body []byte, gr string) (*planfile.Plan, *Desired, error) {
	if !json.Valid(body) {
		if _, err := yamlToJSON(body); err != nil {
			return nil, nil, BadRequest("the body has to be a plan, as GET .../plan/file returns it: %v", err)
		}
	}
	plan, err := planfile.Parse(body, upgradeplan.DefaultBook())
	if err == nil {
		err = plan.For(gr)
	}
	if err != nil {
		return nil, nil, BadRequest("%.10000s", err.Error())
	}
	blueprint := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: gr, Annotations: map[string]string{topsv1.AnnotationUpgradePlan: plan.Object.Name}}}
	if err := DecodeStrictly(plan.Object.Spec.Wanted.Raw, &blueprint.Spec); err != nil {
		return nil, nil, BadRequest("spec.wanted: %v", err)
	}
	return plan, &Desired{Blueprint: blueprint, whole: true}, nil
}
