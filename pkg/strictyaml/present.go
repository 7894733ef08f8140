package strictyaml

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// RequireObject returns an error unless a field of a document holds an object, {} included, without nulls in it. A field
// without a value is null, and is read like one that is absent: half a file would remove what it does not name.
func RequireObject(document map[string]any, field string) error {
	object, is := document[field].(map[string]any)
	if !is {
		return fmt.Errorf("it has no %s, or one that is not an object", field)
	}
	return refuseNull(nullIn(object, field))
}

// RefuseNulls returns an error if there is a null in a document.
func RefuseNulls(document map[string]any) error { return refuseNull(nullIn(document, "")) }

func refuseNull(path string) error {
	if path == "" {
		return nil
	}
	return fmt.Errorf("%s is null: give it a value, or remove it", path)
}

// nullIn returns the path of the first null in a value, with the path of the value before it, "" if there is none.
func nullIn(value any, path string) string {
	switch value := value.(type) {
	case nil:
		return path
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if found := nullIn(value[key], strings.TrimPrefix(path+"."+key, ".")); found != "" {
				return found
			}
		}
	case []any:
		for i, item := range value {
			if found := nullIn(item, fmt.Sprintf("%s[%d]", path, i)); found != "" {
				return found
			}
		}
	}
	return ""
}
