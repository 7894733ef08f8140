package display

import (
	"maps"
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

// Reasons that only this package uses.
const (
	// ReasonSlow: the node has been in flight for longer than usual.
	ReasonSlow = "Slow"
	// ReasonWaiting: the rollout waits for several reasons, and no object shows which of
	// them applies to this node.
	ReasonWaiting = "Waiting"
	// ReasonNotSeen: the operator has not seen the newest spec yet, or its rollout is not found.
	ReasonNotSeen = "NotSeen"
)

const (
	nothing = "nothing: it continues on its own"
	repair  = "roll out another revision, or repair the node: kubectl describe nu NODE"
)

// advice states what to do about a reason; NODE, GR and TASK are replaced by the names.
var advice = map[string]string{
	// A node in flight.
	string(rollout.ReasonReplacing):         nothing,
	string(rollout.ReasonTerminating):       "if it lasts: kubectl get pods -A --field-selector spec.nodeName=NODE, and find out why the pod does not end",
	string(rollout.ReasonAwaitingPod):       nothing,
	string(rollout.ReasonAwaitingAvailable): "if it lasts: kubectl get pods -A --field-selector spec.nodeName=NODE, and look at the new pod",
	string(rollout.ReasonNodeLost):          "bring the node back; past its deadline it counts as failed",
	string(rollout.ReasonOperating):         nothing,
	string(rollout.ReasonOperationDenied):   "allow the operator to create and patch NodeUpgrades: check its role and the admission webhooks; it is retried automatically",
	string(rollout.ReasonFenceDenied):       "allow the operator to patch pods/status: check its role and the admission webhooks; it is retried automatically",
	ReasonSlow:                              "kubectl get pods -A --field-selector spec.nodeName=NODE; kubectl describe nu NODE",

	// A node that is pending or held.
	string(rollout.ReasonBudgetExhausted):   "nothing, or repair nodes that are unavailable for other reasons; annotation " + topsv1.AnnotationMaxUnavailable + " says how many at once",
	string(rollout.ReasonNodesOnProbation):  "nothing; if it lasts, look at the nodes that were upgraded last: they may be dead before Kubernetes shows it",
	string(rollout.ReasonPoolExhausted):     "nothing; pools of the UpgradePolicy say how many at once",
	string(rollout.ReasonQueued):            nothing,
	string(rollout.ReasonUnavailable):       "kubectl get pods -A --field-selector spec.nodeName=NODE, and look at the pod that is not available",
	string(rollout.ReasonPreparing):         nothing,
	string(rollout.ReasonNodeBusy):          "nothing: another gr's operation comes first",
	string(rollout.ReasonDeferred):          "do what the message says; the node is retried automatically",
	string(rollout.ReasonRuntimeSetBack):    "find the tool on NODE that writes the configuration of docker or containerd, and stop it; the runtime is restarted automatically",
	string(rollout.ReasonDeletionDenied):    "allow the operator to delete the pod named in the message: check its role and the admission webhooks; it is retried automatically",
	string(rollout.ReasonEnding):            nothing,
	string(rollout.ReasonPinned):            "roll out another revision, or try this one again: kubectl gcu task retry NODE TASK",
	string(rollout.ReasonNoSuccessor):       "remove the taint that the message names; a DaemonSet that belongs to no gr can get a toleration for it instead",
	string(rollout.ReasonVersionNotAllowed): "upgrade NODE through the versions named in the message: kubectl gcu upgrade GR -f FILE --nodes NODE; or change spec.versions of the UpgradePolicy",
	string(rollout.ReasonAgentTooOld):       "upgrade the node agent on NODE: kubectl get daemonset -A -l app.kubernetes.io/name=gcu-node-agent",
	string(rollout.ReasonWaveNotReached):    "nothing, unless the message says that no node of a wave can be upgraded now: bring one back, or change the waves of the UpgradePolicy",
	string(rollout.ReasonSoaking):           "nothing, unless the message names a node that is not available: repair it, or roll out another revision",
	string(rollout.ReasonAwaitingApproval):  "kubectl gcu approve GR shows the waves; kubectl gcu approve GR WAVE approves one",
	string(rollout.ReasonRecentlyReturned):  nothing,
	string(rollout.ReasonOutsideWindow):     "nothing: wait for the window to open",
	string(rollout.ReasonHalted):            "roll out another revision, kubectl gcu rollback GR, or repair the nodes and kubectl gcu resume GR",
	topsv1.ReasonRevisionRejected:           "roll out another revision; kubectl gcu resume GR rolls the rejected one out again",
	string(rollout.ReasonPaused):            "kubectl gcu resume GR",
	string(rollout.ReasonBlocked):           "correct the setting that the message names",
	string(rollout.ReasonLeftOut):           "kubectl gcu upgrade GR --nodes … continues with others, kubectl gcu upgrade GR --all with the rest",
	string(rollout.ReasonNodeHeld):          "when it may be upgraded: kubectl gcu release NODE, or on the node: node-agent ota release; the message says which",
	string(rollout.ReasonAwaitingRequest):   "on the node: node-agent ota upgrade",
	topsv1.ReasonAwaitingGlobalTask:         "nothing; if it lasts, look at the Job that the message names: kubectl describe job -n NAMESPACE NAME",
	topsv1.ReasonGlobalTaskFailed:           "correct what the message names; then delete a Job that failed, and it runs again",
	ReasonWaiting:                           "kubectl gcu status GR says what the rollout waits for",
	status.ReasonNoStrategy:                 "kubectl annotate gr GR " + topsv1.AnnotationUpdateStrategy + "=AdvancedRollingUpdate",
	ReasonNotSeen:                           "if it lasts, see whether the operator runs: kubectl get deployment -A -l app.kubernetes.io/name=gcu-operator",

	// A component that is removed or renamed.
	status.ReasonRemovedNodeByNode: "nothing; to stop it: kubectl gcu pause GR; to roll it back: kubectl gcu rollback GR",
	status.ReasonRemovedAtOnce:     "nothing brings the old pods back: kubectl gcu rollback GR deploys the component again; next time look at kubectl gcu plan -f first",

	// A node that is left out, or failed.
	string(rollout.ReasonNodeOffline):              "bring the node back: it is upgraded when it is Ready",
	string(rollout.ReasonCrashLooping):             repair,
	string(rollout.ReasonProgressDeadlineExceeded): repair,
	string(rollout.ReasonOperationFailed):          "kubectl gcu task retry NODE TASK, kubectl gcu abort NODE, or roll out another revision",
	string(rollout.ReasonOperationAborted):         "kubectl gcu resume GR, when it may be upgraded again",
	string(rollout.ReasonQuarantined):              "repair the node, then kubectl gcu abort NODE",

	// An operation.
	operation.ReasonPrecheckFailed:      "provide what the message says the node lacks",
	operation.ReasonPrepullFailed:       "check that the image exists, that the node can reach the registry, and the pull secret",
	operation.ReasonCordonHeld:          "nothing, unless the message says that the operator may not change the node: check its role and the admission webhooks",
	operation.ReasonDrainBlocked:        "move the pod that the message names, or change its PodDisruptionBudget",
	operation.ReasonDrainTimeout:        "move the pod that the message names; the node is retried automatically",
	operation.ReasonCardsInUse:          "nothing, or on the node: node-agent ota upgrade",
	operation.ReasonDeviceInUse:         "end the pod or the process that the message names",
	operation.ReasonProgressDeadline:    repair,
	operation.ReasonCrashLoop:           repair,
	operation.ReasonRestartFailed:       "look at the container runtime on the node, then kubectl gcu task retry NODE TASK",
	operation.ReasonLeftToAdministrator: "restart the container runtime on the node, as the message says",
	operation.ReasonVerifyFailed:        "look at what the message names on the node, then kubectl gcu task retry NODE TASK",
	operation.ReasonSoakFailed:          repair,
	operation.ReasonOperationDeadline:   "kubectl gcu abort NODE, or kubectl gcu task retry NODE TASK",
	operation.ReasonBadOperation:        "report this: kubectl gcu support-bundle",
}

// overrides reports whether the advice about a reason is a command about the operation of a node, which is refused when that is over.
func overrides(reason string) bool {
	return strings.Contains(advice[reason], "kubectl gcu task retry ") || strings.Contains(advice[reason], "kubectl gcu abort ")
}

// Advice returns what to do about a reason for which nodes of a gr wait, "" if nothing is
// known.
func Advice(reason, gr string) string { return adviceFor(reason, gr, "", "") }

// AdvisedReasons returns the reasons for which there is advice, sorted.
func AdvisedReasons() []string { return slices.Sorted(maps.Keys(advice)) }

// adviceFor returns what to do about a reason, "" if nothing is known. Placeholders of
// empty names are kept.
func adviceFor(reason, gr, node, task string) string {
	var pairs []string
	for _, p := range [][2]string{{"GR", gr}, {"NODE", node}, {"TASK", task}} {
		if p[1] != "" {
			pairs = append(pairs, " "+p[0], " "+p[1], "="+p[0], "="+p[1])
		}
	}
	return strings.NewReplacer(pairs...).Replace(advice[reason])
}
