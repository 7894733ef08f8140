package daemonset

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// Cut is the limit of an upgrade (contract statement 93). An empty list does not limit.
type Cut struct {
	// Nodes by name.
	Nodes []string
	// Components by their key in the spec of a GcuResource.
	Components []string
}

// HasNode reports whether a node is in the cut. A nil Cut includes all.
func (c *Cut) HasNode(name string) bool {
	return c == nil || len(c.Nodes) == 0 || slices.Contains(c.Nodes, name)
}

// HasComponent reports whether a component is in the cut. A nil Cut includes all.
func (c *Cut) HasComponent(key string) bool {
	return c == nil || len(c.Components) == 0 || slices.Contains(c.Components, key)
}

// CutOf reads AnnotationUpgradeOnly; it returns nil without one. An invalid value is a
// *SettingsError, and never means the whole fleet.
func CutOf(annotations map[string]string) (*Cut, error) {
	value, ok := annotations[topsv1.AnnotationUpgradeOnly]
	if !ok {
		return nil, nil
	}
	cut := &Cut{}
	for _, part := range strings.Split(value, ";") {
		key, names, found := strings.Cut(strings.TrimSpace(part), "=")
		list, good := namesOf(names)
		switch {
		case !found || !good:
			return nil, invalidOnly(value)
		case key == "nodes" && cut.Nodes == nil:
			cut.Nodes = list
		case key == "components" && cut.Components == nil:
			cut.Components = list
		default:
			return nil, invalidOnly(value)
		}
	}
	return cut, nil
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

// String returns the value of the annotation, "" for a cut that does not limit.
func (c *Cut) String() string {
	if c == nil {
		return ""
	}
	var parts []string
	if len(c.Nodes) > 0 {
		parts = append(parts, "nodes="+strings.Join(c.Nodes, ","))
	}
	if len(c.Components) > 0 {
		parts = append(parts, "components="+strings.Join(c.Components, ","))
	}
	return strings.Join(parts, ";")
}
