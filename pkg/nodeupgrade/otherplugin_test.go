package nodeupgrade

import (
	"slices"
	"testing"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// The node is uncordoned, so that the other gr can replace its plugin.
func TestAnOperationIsPutOffForAnOutdatedPluginOfAnotherGroup(t *testing.T) {
	s := newStage(t, toolkit, plugin)
	s.host.Runtime.Default = topsv1.DefaultRuntime
	s.revision[plugin] = "" // the pods of the plugin are not at its newest revision, and never Ready
	for _, pod := range s.podsOf(plugin) {
		s.kill(&pod)
	}
	s.publish(toolkit, "v2")
	s.change(func(nu *topsv1.NodeUpgrade) {
		nu.Spec.Operation = s.operation("op", toolkit)
		quick(nu.Spec.Operation)
		nu.Spec.Operation.Targets = slices.DeleteFunc(nu.Spec.Operation.Targets, func(of topsv1.OperationTarget) bool { return of.Component == plugin })
	})
	s.ends("Deferred VerifyFailed", "", "toolkit v2")
}
