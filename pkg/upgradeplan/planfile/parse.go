package planfile

import (
	"errors"
	"fmt"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/config/crd"
	"github.com/topsops/gcu-operator/pkg/strictyaml"
	"github.com/topsops/gcu-operator/pkg/upgradeplan"
)

// MaxBytes is the size of the largest file that is accepted: an object of the API server holds it,
// together with its result.
const MaxBytes = 1 << 20

// Kind is the kind of the object in a file.
const Kind = "UpgradePlan"

// Parse reads a file, YAML or JSON, with one UpgradePlan, and checks it against the rules. The
// error says what is wrong, and which rule it breaks.
func Parse(text []byte, book upgradeplan.LogicBook) (*Plan, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("the plan has %d bytes, and at most %d are accepted: plan fewer nodes at a time", len(text), MaxBytes)
	}
	object := &topsv1.UpgradePlan{}
	if err := strictyaml.Unmarshal(text, object); err != nil {
		return nil, fmt.Errorf("the file is not a plan: %w", err)
	}
	if object.APIVersion != topsv1.GroupVersion.String() || object.Kind != Kind {
		return nil, fmt.Errorf("the file has a %q of %q, not an %s of %s", object.Kind, object.APIVersion, Kind, topsv1.GroupVersion)
	}
	if err := checkSpec(text); err != nil {
		return nil, fmt.Errorf("the file is not a plan: %w", err)
	}
	if object.Name == "" || object.Spec.Wanted == nil {
		return nil, errors.New("metadata.name and spec.wanted are required")
	}
	return Read(object, book)
}

// checkSpec returns an error if the spec in a file has what the object read from it does not show, nulls, or more than its CRD
// allows.
func checkSpec(text []byte) error {
	content := map[string]any{}
	if err := strictyaml.Unmarshal(text, &content); err != nil {
		return err
	}
	if err := strictyaml.RequireObject(content, "spec"); err != nil {
		return err
	}
	allowed, err := crd.UpgradePlanSpec()
	if err != nil {
		return err
	}
	return checkSize("spec", allowed, content["spec"])
}
