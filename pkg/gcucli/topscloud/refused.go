package topscloud

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// schema is what the API server requires of a value.
type schema = apiextensionsv1.JSONSchemaProps

// refused calls note for each text in a value that the API server refuses, and for each missing
// required field. Names and types are those of our types.
func refused(field string, of *schema, value any, note func(field, message string)) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range of.Required {
			if value[key] == nil && of.Properties[key].Default == nil {
				note(field+"."+key, "is missing: the API server refuses "+field+" without it")
			}
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			property, is := of.Properties[key]
			if !is && of.AdditionalProperties != nil && of.AdditionalProperties.Schema != nil {
				property = *of.AdditionalProperties.Schema
			}
			refused(field+"."+key, &property, value[key], note)
		}
	case []any:
		for i := range value {
			if of.Items != nil {
				refused(fmt.Sprintf("%s[%d]", field, i), of.Items.Schema, value[i], note)
			}
		}
	case string:
		if why := unmetRequirement(of, value); why != "" {
			note(field, fmt.Sprintf("is %q, which the API server refuses: it %s", value, why))
		}
	}
}

// unmetRequirement returns what a text has to be, "" if it is.
func unmetRequirement(of *schema, text string) string {
	var allowed []string
	for _, choice := range of.Enum {
		var one string
		if json.Unmarshal(choice.Raw, &one) == nil {
			allowed = append(allowed, one)
		}
	}
	switch pattern, err := regexp.Compile(of.Pattern); {
	case len(allowed) > 0 && !slices.Contains(allowed, text):
		return "is one of " + strings.Join(allowed, ", ")
	case err == nil && !pattern.MatchString(text):
		return "has to match " + of.Pattern
	case of.MinLength != nil && int64(len(text)) < *of.MinLength:
		return "has to have a value"
	case of.MaxLength != nil && int64(len([]rune(text))) > *of.MaxLength:
		return fmt.Sprintf("has to have at most %d characters", *of.MaxLength)
	}
	return ""
}
