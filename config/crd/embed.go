// Package crd holds CustomResourceDefinitions for programs that judge an object without a cluster.
package crd

import (
	_ "embed"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

var (
	//go:embed topsops.enflame.com_gcuresources.yaml
	gcuResources []byte
	//go:embed topsops.enflame.com_upgradeplans.yaml
	upgradePlans []byte
)

// GcuResourceSpec returns what the API server requires of the spec of a GcuResource. An error is a bug in this program.
func GcuResourceSpec() (*apiextensionsv1.JSONSchemaProps, error) { return specIn(gcuResources) }

// UpgradePlanSpec returns what the API server requires of the spec of an UpgradePlan. An error is a bug in this program.
func UpgradePlanSpec() (*apiextensionsv1.JSONSchemaProps, error) { return specIn(upgradePlans) }

func specIn(text []byte) (*apiextensionsv1.JSONSchemaProps, error) {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &definition); err != nil {
		return nil, fmt.Errorf("decoding the CustomResourceDefinition of this program: %w", err)
	}
	for _, v := range definition.Spec.Versions {
		if spec, is := v.Schema.OpenAPIV3Schema.Properties["spec"]; v.Storage && is {
			return &spec, nil
		}
	}
	return nil, errors.New("the CustomResourceDefinition of this program has no spec")
}
