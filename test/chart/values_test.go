package chart

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
)

// TestTwoReplicasHaveABudgetAndSpread: with autoscaling its maximum says how many there may be, not replicaCount.
func TestTwoReplicasHaveABudgetAndSpread(t *testing.T) {
	for values, want := range map[string]bool{
		"":                             false,
		"replicaCount: 2":              true,
		"autoscaling: {enabled: true}": true,
		"replicaCount: 2\nautoscaling: {enabled: true, maxReplicas: 1}": false,
	} {
		objects := byName(t, render(t, values))
		pod := objects["Deployment kube-system/gcu-operator"]["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
		if budget, spread := objects["PodDisruptionBudget kube-system/gcu-operator"] != nil, pod["topologySpreadConstraints"] != nil; budget != want || spread != want {
			t.Errorf("%q: a budget %v, spread %v, want %v", values, budget, spread, want)
		}
	}
}

// TestEachHookHasAnAccountOfItsOwn: Argo CD 3.3 takes objects that are hooks of a sync and of a deletion for one of them only.
func TestEachHookHasAnAccountOfItsOwn(t *testing.T) {
	objects := byName(t, render(t, "gcuResource: {deploy: true}"))
	when := func(o object) any {
		return o["metadata"].(map[string]any)["annotations"].(map[string]any)["helm.sh/hook"]
	}
	for name, want := range map[string]struct {
		hooks            string
		verbs, resources []any
	}{"create": {"post-install,post-upgrade", []any{"create"}, []any{"gcuresources"}}, "remove": {"pre-delete", []any{"list", "delete"}, []any{"gcuresources", "gcuresourcerecreations"}}} {
		name = "gcu-operator-" + name
		for _, kind := range []string{"Job kube-system", "ServiceAccount kube-system", "ClusterRole ", "ClusterRoleBinding "} {
			if o := objects[kind+"/"+name]; o == nil || when(o) != want.hooks {
				t.Errorf("%s/%s is not a hook %s: %v", kind, name, want.hooks, o)
			}
		}
		if log := objects["Job kube-system/"+name]["metadata"].(map[string]any)["annotations"].(map[string]any)["helm.sh/hook-output-log-policy"]; log != "hook-failed" {
			t.Errorf("%s: helm prints its log with %v, want hook-failed", name, log)
		}
		// A Job that failed is not deleted by helm, which removes the other objects.
		if ttl := objects["Job kube-system/"+name]["spec"].(map[string]any)["ttlSecondsAfterFinished"]; ttl != 24*60*60 {
			t.Errorf("%s is there for %v s after it failed, want a day", name, ttl)
		}
		if role := objects["ClusterRole /"+name]; role != nil {
			rules := role["rules"].([]any)
			if diff := cmp.Diff([]any{want.verbs, want.resources}, []any{rules[0].(map[string]any)["verbs"], rules[0].(map[string]any)["resources"]}); diff != "" || len(rules) != 1 {
				t.Errorf("%s has %d rules, (-want +got):\n%s", name, len(rules), diff)
			}
		}
	}
}

// TestTheMirrorHasAllImagesOfTheDefaultResource: but those of a component that names its repository.
func TestTheMirrorHasAllImagesOfTheDefaultResource(t *testing.T) {
	const all = "gcuResource: {deploy: true, driver: {notDeploy: false}, spec: {nightingale: {notDeploy: false}, gcusharePlugin: {notDeploy: false}, gcushareScheduler: {notDeploy: false}, volcano: {notDeploy: false}%s}}\n"
	images := func(values string) []string {
		var gr topsv1.GcuResource
		created := byName(t, render(t, values))["ConfigMap kube-system/gcu-operator-default-resource"]
		check(t, json.Unmarshal([]byte(created["data"].(map[string]any)["gcu-resource.json"].(string)), &gr))
		found, err := component.Images(&gr)
		check(t, err)
		return found
	}
	want := images(fmt.Sprintf(all, ""))
	for i := range want {
		want[i] = strings.Replace(want[i], "artifact.enflame.cn/", "mirror:5000/", 1)
	}
	if diff := cmp.Diff(want, images(fmt.Sprintf(all, "")+"global: {registry: 'mirror:5000'}")); diff != "" {
		t.Error(diff)
	}
	if got := images(fmt.Sprintf(all, ", gfd: {repository: own/path}") + "global: {registry: 'mirror:5000'}"); !slices.Contains(got, "own/path/gcu-gfd:latest") {
		t.Errorf("own/path/gcu-gfd is not in %v", got)
	}
}

// TestAUsersValueOfAKeyThatTheChartHasWins: it is there once. The parser of this test refuses a key that is there twice, as
// kustomize does.
func TestAUsersValueOfAKeyThatTheChartHasWins(t *testing.T) {
	objects := byName(t, render(t, `
metrics:
  serviceMonitor: {enabled: true, labels: {app.kubernetes.io/name: mine}}
  podMonitor: {enabled: true, labels: {app.kubernetes.io/name: mine}}
  prometheusRule: {enabled: true, labels: {app.kubernetes.io/name: mine}}
  dashboards: {enabled: true, labels: {app.kubernetes.io/name: mine, grafana_dashboard: mine}}
nodeAgent: {nodeSelector: {enflame.com/gcu.present: mine}}
`))
	for name, keys := range map[string][]string{
		"ServiceMonitor kube-system/gcu-operator":       {"metadata", "labels", "app.kubernetes.io/name"},
		"PodMonitor kube-system/gcu-operator":           {"metadata", "labels", "app.kubernetes.io/name"},
		"PrometheusRule kube-system/gcu-operator":       {"metadata", "labels", "app.kubernetes.io/name"},
		"ConfigMap kube-system/gcu-operator-dashboards": {"metadata", "labels", "grafana_dashboard"},
		"DaemonSet kube-system/gcu-node-agent":          {"spec", "template", "spec", "nodeSelector", "enflame.com/gcu.present"},
	} {
		if got, _, err := unstructured.NestedString(objects[name], keys...); err != nil || got != "mine" {
			t.Errorf("%s has %q, %v", name, got, err)
		}
	}
}
