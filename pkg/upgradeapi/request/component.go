package request

import (
	"maps"
	"slices"
	"strings"
)

// components are the components that a path may name as its kind: driver, toolkit, plugin,
// exporter and gfd (contract 64), and devicePlugin, as the gr names plugin (decision D2).
var components = map[string]string{
	"driver": "driver", "toolkit": "toolkit", "plugin": "devicePlugin", "devicePlugin": "devicePlugin", "exporter": "exporter", "gfd": "gfd",
}

// Component returns the component that a kind in a path means.
func Component(kind string) (string, error) {
	component, ok := components[kind]
	if !ok {
		return "", BadRequest("kind %.100q is none of %s", kind, strings.Join(slices.Sorted(maps.Keys(components)), ", "))
	}
	return component, nil
}
