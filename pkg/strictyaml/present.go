package strictyaml

import (
	"fmt"
	"maps"
	"slices"
)

// RequireObject returns an error unless a field of a document holds an object, {} included, without nulls in it. A field
// without a value is null, and is read like one that is absent: half a file would remove what it does not name.
func RequireObject(document map[string]any, field string) error {
	object, is := document[field].(map[string]any)
	if !is {
		return fmt.Errorf("it has no %s, or one that is not an object", field)
	}
	if path := nullIn(object, field); path != "" {
		return fmt.Errorf("%s is null: give it a value, or remove it", path)
	}
	return nil
}

// nullIn returns the path of the first null in a value, with the path of the value before it, "" if there is none.
func nullIn(value any, path string) string {
	switch value := value.(type) {
	case nil:
		return path
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if found := nullIn(value[key], path+"."+key); found != "" {
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
