package planfile

import (
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// checkSize returns an error if a list in a value, at a path of a file, has more items than the CRD of plans allows. A file has not
// passed the CRD yet, and the time to check a job grows with the square of its tasks.
func checkSize(path string, of *apiextensionsv1.JSONSchemaProps, value any) error {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			field := of.Properties[key]
			if err := checkSize(path+"."+key, &field, value[key]); err != nil {
				return err
			}
		}
	case []any:
		if of.MaxItems != nil && int64(len(value)) > *of.MaxItems {
			return fmt.Errorf("%s has %d items: at most %d are accepted", path, len(value), *of.MaxItems)
		}
		for i := range value {
			if of.Items == nil {
				break
			}
			if err := checkSize(fmt.Sprintf("%s[%d]", path, i), of.Items.Schema, value[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
