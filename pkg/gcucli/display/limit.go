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
	cut, err := daemonset.CutOf(map[string]string{topsv1.AnnotationUpgradeOnly: only})
	if err != nil {
		return fmt.Sprintf("%q", only)
	}
	var parts []string
	if len(cut.Nodes) > 0 {
		parts = append(parts, message.Count(len(cut.Nodes), "node")+" ("+message.Names(cut.Nodes)+")")
	}
	if len(cut.Components) > 0 {
		parts = append(parts, message.Count(len(cut.Components), "component")+" ("+strings.Join(cut.Components, ", ")+")")
	}
	return strings.Join(parts, " and ")
}
