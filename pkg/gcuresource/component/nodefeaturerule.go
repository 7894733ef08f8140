package component

import (
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const nodeFeatureRuleCRDName = "nodefeaturerules." + nfdGroup

type props = apiextensionsv1.JSONSchemaProps

// nodeFeatureRuleCRD is the API of the label rules nfd v0.11 reads.
func nodeFeatureRuleCRD(s settings) *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "CustomResourceDefinition"},
		ObjectMeta: metaOf("", nodeFeatureRuleCRDName, s.name),
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: nfdGroup,
			Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{
				Kind: "NodeFeatureRule", ListKind: "NodeFeatureRuleList", Plural: "nodefeaturerules", Singular: "nodefeaturerule",
			},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1alpha1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: nodeFeatureRuleSchema()},
			}},
		},
	}
}

func nodeFeatureRuleSchema() *props {
	rule := record([]string{"name"}, map[string]props{
		"name":           text("Name of the rule."),
		"labels":         mapOf(text("Value of the label."), "Labels a matching node gets."),
		"labelsTemplate": text("Template that expands to one label per line."),
		"vars":           mapOf(text("Value of the variable."), "Variables later rules may refer to."),
		"varsTemplate":   text("Template that expands to one variable per line."),
		"matchFeatures":  matchFeatures(),
		"matchAny": listOf(record([]string{"matchFeatures"}, map[string]props{"matchFeatures": matchFeatures()}),
			"Alternatives, one of which must match."),
	})
	spec := record([]string{"rules"}, map[string]props{"rules": listOf(rule, "Rules, applied in order.")})
	root := record([]string{"spec"}, map[string]props{
		"apiVersion": text("Version of this object's schema."),
		"kind":       text("Kind of this object."),
		"metadata":   {Type: "object"},
		"spec":       spec,
	})
	root.Description = "NodeFeatureRule labels nodes by the features found on them."
	return &root
}

// matchFeatures is a list of conditions all of which must hold.
func matchFeatures() props {
	expression := record([]string{"op"}, map[string]props{
		"op":    oneOf("In", "NotIn", "InRegexp", "Exists", "DoesNotExist", "Gt", "Lt", "GtLt", "IsTrue", "IsFalse"),
		"value": listOf(text("One value."), "Values the operator compares with."),
	})
	return listOf(record([]string{"feature", "matchExpressions"}, map[string]props{
		"feature":          text("Feature set to look at, such as pci.device."),
		"matchExpressions": mapOf(expression, "Expression per element of the feature set."),
	}), "Conditions all of which must hold.")
}

func text(description string) props { return props{Type: "string", Description: description} }

func oneOf(words ...string) props {
	s := props{Type: "string"}
	for _, w := range words {
		s.Enum = append(s.Enum, apiextensionsv1.JSON{Raw: []byte(strconv.Quote(w))})
	}
	return s
}

func record(required []string, properties map[string]props) props {
	return props{Type: "object", Required: required, Properties: properties}
}

func listOf(item props, description string) props {
	return props{Type: "array", Description: description, Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}}
}

func mapOf(value props, description string) props {
	return props{Type: "object", Description: description,
		AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Allows: true, Schema: &value}}
}
