package daemonset

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Limit is the limit of an upgrade (contract statement 93). An empty list does not limit.
type Limit struct {
	// Nodes by name.
	Nodes []string
	// Components by their key in the spec of a GcuResource.
	Components []string
}

// HasNode reports whether a node is within the limit. A nil Limit includes all.
func (l *Limit) HasNode(name string) bool {
	return l == nil || len(l.Nodes) == 0 || slices.Contains(l.Nodes, name)
}

// HasComponent reports whether a component is within the limit. A nil Limit includes all.
func (l *Limit) HasComponent(key string) bool {
	return l == nil || len(l.Components) == 0 || slices.Contains(l.Components, key)
}

// LimitOf reads AnnotationUpgradeOnly; it returns nil without one. An invalid value is a
// *SettingsError, and never means the whole fleet.
func LimitOf(annotations map[string]string) (*Limit, error) {
	value, ok := annotations[topsv1.AnnotationUpgradeOnly]
	if !ok {
		return nil, nil
	}
	limit := &Limit{}
	for _, part := range strings.Split(value, ";") {
		key, names, found := strings.Cut(strings.TrimSpace(part), "=")
		list, good := namesOf(names)
		switch {
		case !found || !good:
			return nil, invalidOnly(value)
		case key == "nodes" && limit.Nodes == nil:
			limit.Nodes = list
		case key == "components" && limit.Components == nil:
			for _, name := range list {
				limit.Components = append(limit.Components, ComponentKey(name))
			}
		default:
			return nil, invalidOnly(value)
		}
	}
	return limit, nil
}

// ComponentKey returns the key of a component in the spec of a GcuResource. It has another name there, too (decision D2):
// plugin is devicePlugin.
func ComponentKey(name string) string {
	if name == "plugin" {
		return "devicePlugin"
	}
	return name
}

// namesOf splits names at commas.
func namesOf(text string) (names []string, good bool) {
	for _, name := range strings.Split(text, ",") {
		name = strings.TrimSpace(name)
		if len(validation.IsDNS1123Subdomain(strings.ToLower(name))) > 0 {
			return nil, false
		}
		names = append(names, name)
	}
	return names, true
}

func invalidOnly(value string) error {
	return settingsError(ReasonInvalidUpgradeOnly,
		"annotation %s is %q: set it to nodes=NAME,NAME or components=KEY,KEY or both with ; between them, or remove it", topsv1.AnnotationUpgradeOnly, value)
}

// String returns the value of the annotation, "" for one without nodes and components.
func (l *Limit) String() string {
	if l == nil {
		return ""
	}
	var parts []string
	if len(l.Nodes) > 0 {
		parts = append(parts, "nodes="+strings.Join(l.Nodes, ","))
	}
	if len(l.Components) > 0 {
		parts = append(parts, "components="+strings.Join(l.Components, ","))
	}
	return strings.Join(parts, ";")
}
