package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/rollout"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
	"github.com/topsops/gcu-operator/pkg/nodeupgrade/operation"
)

const rulesFile = "config/monitoring/rules.yaml"

// ruleFile is a rules file of Prometheus.
type ruleFile struct {
	Groups []struct {
		Name  string
		Rules []alertRule
	}
}

// alertRule is a rule of Prometheus that fires an alert.
type alertRule struct {
	Alert, Expr, For string
	Labels           map[string]string
	Annotations      map[string]string
}

// runbooks say what to do about each alert: where to look first, and the reasons whose advice follows.
var runbooks = map[string]struct {
	look    string
	reasons []string
}{
	"GCUOperatorAbsent": {look: "`kubectl get deployment,pods -n kube-system -l app.kubernetes.io/name=gcu-operator`, then `kubectl logs -n kube-system deployment/gcu-operator`. " +
		"The alert also fires when Prometheus cannot scrape the manager: see its target."},
	"GCURolloutHalted":      {"`kubectl gcu nodes GR` shows the failed nodes and why.", []string{string(rollout.ReasonHalted)}},
	"GCURolloutNodesFailed": {"`kubectl gcu nodes GR` shows them.", []string{string(rollout.ReasonCrashLooping), string(rollout.ReasonOperationFailed), string(rollout.ReasonNodeLost)}},
	"GCURolloutNoProgress": {"`kubectl gcu status GR` says what it waits for.", []string{string(rollout.ReasonBudgetExhausted), string(rollout.ReasonUnavailable), string(rollout.ReasonTerminating),
		string(rollout.ReasonAwaitingAvailable), string(rollout.ReasonFenceDenied), string(rollout.ReasonDeletionDenied)}},
	"GCURolloutBudgetExceeded": {"`kubectl gcu nodes GR` shows nodes in flight and unavailable.", []string{string(rollout.ReasonUnavailable), string(rollout.ReasonNodeLost)}},
	"GCURolloutRolledBack": {look: "`kubectl describe dro -n kube-system GR` says which revision failed where, and `kubectl gcu history GR` what was deployed before. " +
		"Correct the version before you roll it out again."},
	"GCURevisionRejected":            {"`kubectl gcu status GR` shows it and why; `kubectl gcu history GR` what is deployed.", []string{topsv1.ReasonRevisionRejected}},
	"GCUGateNotAvailable":            {look: "`kubectl describe dro -n kube-system GR` says which of them in condition `Gated`. Install `config/gate`, upgrade the control plane to Kubernetes 1.36, or turn the gate off ([Install](../install.md#the-gate))."},
	"GCURolloutBlocked":              {"`kubectl gcu status GR` names the setting, or the task.", []string{string(rollout.ReasonBlocked), topsv1.ReasonGlobalTaskFailed}},
	"GCURolloutAwaitsApproval":       {"", []string{string(rollout.ReasonAwaitingApproval)}},
	"GCURolloutWindowMissed":         {look: "`kubectl get gup -o yaml`: compare `window` with how long a node takes (`kubectl gcu status GR`), and see its time zone."},
	"GCUNodesOfflineWithOldRevision": {"`kubectl gcu nodes GR` shows them.", []string{string(rollout.ReasonNodeOffline)}},
	"GCUDrainBlocked":                {"`kubectl get nu` shows the operations, `kubectl describe nu NODE` names the pod.", []string{operation.ReasonDrainBlocked, operation.ReasonDeviceInUse}},
	"GCUNodesDeferred":               {"`kubectl gcu nodes GR` shows them and why.", []string{string(rollout.ReasonDeferred), operation.ReasonPrecheckFailed, operation.ReasonDrainTimeout}},
	"GCUNodesKeptCordoned":           {"`kubectl get nu` shows them.", []string{string(rollout.ReasonOperationFailed), string(rollout.ReasonQuarantined)}},
	"GCUNodeAgentSilent":             {look: "`kubectl get nu` shows the node; then `kubectl get pods -n kube-system -l app.kubernetes.io/name=gcu-node-agent --field-selector spec.nodeName=NODE` and the log of that pod."},
	"GCURuntimeRestartFailed":        {"`kubectl get nu` shows the node.", []string{operation.ReasonRestartFailed}},
	"GCUNotificationsNotDelivered":   {look: "`kubectl logs -n kube-system deployment/gcu-operator` says why: look for `Delivering a notification failed`. Correct the URL or the secret of the notifications, or the receiver ([Operate](../operate.md#notifications))."},
	"GCUCertificateEnding":           {look: "`kubectl logs -n kube-system deployment/gcu-operator` says why it is not renewed: look for `Cannot keep the CA`."},
	"GCUCardUnhealthy":               {look: "Drain the node, and see the vendor's tools for the card. The exporter's documents say: return it."},
	"GCUCardHot":                     {look: "See fans, air flow and load of the node."},
	"GCUCardMissing":                 {look: "`kubectl describe node NODE` shows what is allocatable; then the kernel log of the node. If it was taken out on purpose, the alert ends after a week."},
	"GCUCardLinkDegraded":            {look: "Reseat the card, or see the slot."},
}

// alertFiles returns the files that are made of the rules.
func alertFiles(root string) (map[string]string, error) {
	text, err := os.ReadFile(filepath.Join(root, rulesFile))
	if err != nil {
		return nil, err
	}
	var rules ruleFile
	if err := yaml.UnmarshalStrict(text, &rules); err != nil {
		return nil, fmt.Errorf("%s: %w", rulesFile, err)
	}
	page, err := alertsPage(rules)
	return map[string]string{"config/monitoring/prometheus_rule.yaml": prometheusRule(string(text)), "docs/reference/alerts.md": page}, err
}

// prometheusRule returns the rules as an object of the Prometheus operator.
func prometheusRule(rules string) string {
	const head = `# From rules.yaml, by make generate.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: gcu-operator
  namespace: kube-system
  labels:
    app.kubernetes.io/name: gcu-operator
spec:
`
	_, groups, _ := strings.Cut(rules, "groups:\n")
	indented := "  groups:\n"
	for line := range strings.Lines(groups) {
		if line != "\n" {
			line = "  " + line
		}
		indented += line
	}
	return head + indented
}

// cardsGroup are the rules about the metrics of the exporter, and cardsNote what is known of these.
const (
	cardsGroup = "gcu-cards"
	cardsNote  = "**Not verified:** the name and the values of the metric are those of the documents of the vendor's exporter, and were not checked against hardware. " +
		"See that your exporter has it: without the metric this alert never fires."
)

// alertsHead is above the runbooks.
const alertsHead = "# Alerts\n\nThe rules are in [config/monitoring](../../config/monitoring/rules.yaml); how to install them is in [Operate](../operate.md#alerts). GR is label `rollout`.\n\n" +
	"The rollout of a single DaemonSet has no gr: its label `rollout` is `NAMESPACE/NAME`, which no command takes in the place of GR. Its DaemonRollout has the name and the namespace of the DaemonSet:\n\n" +
	"| for a gr | for a DaemonSet |\n|---|---|\n" +
	"| `kubectl gcu status GR` | `kubectl get dro -n NAMESPACE NAME -o wide`, `kubectl describe dro -n NAMESPACE NAME` |\n" +
	"| `kubectl gcu nodes GR` | `kubectl get dro -n NAMESPACE NAME -o yaml`: `status.failed`, `status.skipped`, `status.inFlight` and `status.waiting` |\n" +
	"| `kubectl describe dro -n kube-system GR` | `kubectl describe dro -n NAMESPACE NAME` |\n" +
	"| `kubectl gcu history GR`, `kubectl gcu rollback GR` | `kubectl rollout history ds -n NAMESPACE NAME`, `kubectl rollout undo ds -n NAMESPACE NAME` |\n" +
	"| `kubectl gcu resume GR` | `kubectl annotate dro -n NAMESPACE NAME --overwrite topsops.enflame.com/resume=\"$(date)\"` |\n" +
	"| `kubectl gcu approve GR` | annotation [`approved-waves`](annotations.md#on-other-objects) of the DaemonRollout |\n\n" +
	"Commands that take a node are for both: `kubectl gcu hold NODE`, `kubectl gcu release NODE` and `kubectl describe nu NODE`, and `kubectl gcu task undo` and `kubectl gcu task retry` with the task " +
	"`NODE_NAMESPACE.NAME_replace`. `kubectl gcu abort` and `kubectl gcu task skip` are about operations, which a single DaemonSet has none of.\n"

// alertsPage returns the runbooks.
func alertsPage(rules ruleFile) (string, error) {
	page := generated + alertsHead
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			book, ok := runbooks[rule.Alert]
			if !ok {
				return "", fmt.Errorf("alert %s of %s has no runbook in test/docs/alerts.go", rule.Alert, rulesFile)
			}
			page += fmt.Sprintf("\n## %s\n\n%s %s.\n\n%s", rule.Alert, strings.ToUpper(rule.Labels["severity"][:1])+rule.Labels["severity"][1:]+":",
				strings.TrimSuffix(plainTemplate.Replace(rule.Annotations["summary"]), "."), plainTemplate.Replace(rule.Annotations["description"]))
			if book.look != "" {
				page += " " + book.look
			}
			if group.Name == cardsGroup {
				page += " " + cardsNote
			}
			page += "\n"
			if len(book.reasons) > 0 {
				page += "\n| reason | what to do |\n|---|---|\n"
			}
			for _, reason := range book.reasons {
				page += fmt.Sprintf("| `%s` | %s |\n", reason, display.Advice(reason, ""))
			}
			page += "\n```\n" + strings.TrimSpace(rule.Expr) + "\n```\n"
		}
	}
	return page, nil
}

// plainTemplate turns the templates of annotations into words.
var plainTemplate = strings.NewReplacer("{{ $labels.rollout }}", "GR", "{{ $labels.reason }}", "REASON", "{{ $labels.action }}", "TASK", "{{ $labels.runtime }}", "RUNTIME",
	"{{ $labels.minor_number }}{{ $labels.ID }}", "ID", "{{ $labels.host }}{{ $labels.Host }}", "HOST", "{{ $value }}", "N", "{{ $value | humanizeDuration }}", "TIME")
