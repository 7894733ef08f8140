package display

import (
	"fmt"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonset"
	"github.com/topsops/gcu-operator/pkg/message"
)

// LimitText describes the limit of an upgrade in the value of annotation upgrade-only.
func LimitText(only string) string {
	limit, err := daemonset.LimitOf(map[string]string{topsv1.AnnotationUpgradeOnly: only})
	if err != nil {
		return fmt.Sprintf("%q", only)
	}
	var parts []string
	if len(limit.Nodes) > 0 {
		parts = append(parts, message.Count(len(limit.Nodes), "node")+" ("+message.Names(limit.Nodes)+")")
	}
	if len(limit.Components) > 0 {
		parts = append(parts, message.Count(len(limit.Components), "component")+" ("+strings.Join(limit.Components, ", ")+")")
	}
	return strings.Join(parts, " and ")
}
