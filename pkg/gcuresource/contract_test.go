package gcuresource

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

const grsPath = "/apis/topsops.enflame.com/v1/gcuresources"

// ask sends a request unchanged and returns the response.
func ask(t *testing.T, method, path, contentType, accept, body string) (string, error) {
	t.Helper()
	clients, err := kubernetes.NewForConfig(testServer(t).As(apiserver.Admin))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := clients.RESTClient().Verb(method).RequestURI(path).SetHeader("Content-Type", contentType).SetHeader("Accept", accept).
		Body([]byte(body)).Do(context.Background()).Raw()
	return string(answer), err
}

func TestContractIdentity(t *testing.T) {
	const dryRun = grsPath + "?dryRun=All"
	post := func(t *testing.T, body string) (string, error) {
		t.Helper()
		return ask(t, "POST", dryRun, "application/json", "application/json", body)
	}
	t.Run("contract 1: another version or kind is refused", func(t *testing.T) {
		for _, wrong := range []string{
			`{"apiVersion":"topsops.enflame.com/v2","kind":"GcuResource","metadata":{"name":"x"}}`,
			`{"apiVersion":"topsops.enflame.com/v1","kind":"GCUResource","metadata":{"name":"x"}}`,
			`{"kind":"GcuResource","metadata":{"name":"x"}}`,
			`{"apiVersion":"topsops.enflame.com/v1","metadata":{"name":"x"}}`,
		} {
			if answer, err := post(t, wrong); err == nil {
				t.Errorf("%s was accepted: %s", wrong, answer)
			}
		}
	})
	t.Run("contract 5: a gr needs a name", func(t *testing.T) {
		err := testClient(t).Create(context.Background(), &topsv1.GcuResource{}, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "name or generateName is required") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("contract 7: JSON and YAML are accepted", func(t *testing.T) {
		if _, err := post(t, `{"apiVersion":"topsops.enflame.com/v1","kind":"GcuResource","metadata":{"name":"x"},"spec":{"gfd":{}}}`); err != nil {
			t.Error(err)
		}
		_, err := ask(t, "POST", dryRun, "application/yaml", "application/json",
			"apiVersion: topsops.enflame.com/v1\nkind: GcuResource\nmetadata: {name: x}\nspec: {gfd: {}}\n")
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("unknown fields are pruned unless the user asks for strictness", func(t *testing.T) {
		answer, err := post(t, `{"apiVersion":"topsops.enflame.com/v1","kind":"GcuResource","metadata":{"name":"x"},"spec":{"gfd":{"imge":"x"}}}`)
		if err != nil {
			t.Fatal(err)
		}
		gr := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(answer), gr); err != nil {
			t.Fatal(err)
		}
		gfd, found, err := unstructured.NestedMap(gr.Object, "spec", "gfd")
		if _, kept := gfd["imge"]; kept || !found || err != nil {
			t.Errorf("stored as %v (%v)", gfd, err)
		}
	})
}

func TestContractKind(t *testing.T) {
	raw := nfdCRD()
	if err := testClient(t).Get(context.Background(), clusterKey("gcuresources.topsops.enflame.com"), raw); err != nil {
		t.Fatal(err)
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, &crd); err != nil {
		t.Fatal(err)
	}
	t.Run("contract 2: plural, singular and short name", func(t *testing.T) {
		names := crd.Spec.Names
		if diff := cmp.Diff([]string{"gcuresources", "gcuresource", "gr", "GcuResource"},
			append([]string{names.Plural, names.Singular}, append(slices.Clone(names.ShortNames), names.Kind)...)); diff != "" {
			t.Errorf("names (-want +got):\n%s", diff)
		}
	})
	t.Run("contract 4: a gr has no namespace", func(t *testing.T) {
		if crd.Spec.Scope != apiextensionsv1.ClusterScoped {
			t.Errorf("the scope is %s", crd.Spec.Scope)
		}
		if _, err := ask(t, "GET", "/apis/topsops.enflame.com/v1/namespaces/default/gcuresources", "", "application/json", ""); err == nil {
			t.Error("it is found in a namespace")
		}
	})
	t.Run("contract 3: kubectl get prints NAME, READY, STATUS and AGE", func(t *testing.T) {
		answer, err := ask(t, "GET", grsPath, "", "application/json;as=Table;v=v1;g=meta.k8s.io", "")
		if err != nil {
			t.Fatal(err)
		}
		var table metav1.Table
		if err := json.Unmarshal([]byte(answer), &table); err != nil {
			t.Fatal(err)
		}
		var narrow, wide []string
		for _, column := range table.ColumnDefinitions {
			wide = append(wide, strings.ToUpper(column.Name))
			if column.Priority == 0 {
				narrow = append(narrow, strings.ToUpper(column.Name))
			}
		}
		if diff := cmp.Diff([]string{"NAME", "READY", "STATUS", "AGE"}, narrow); diff != "" || len(wide) <= len(narrow) {
			t.Errorf("columns are %v, with -o wide %v", narrow, wide)
		}
		paths := map[string]string{}
		for _, column := range crd.Spec.Versions[0].AdditionalPrinterColumns {
			paths[column.Name] = column.JSONPath
		}
		if paths["READY"] != ".status.readyResource" || paths["STATUS"] != ".status.phase" {
			t.Errorf("they show %v", paths)
		}
	})
	t.Run("contract 8: a user's update of the status is ignored", func(t *testing.T) {
		c := testClient(t)
		gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "status-of-a-user"}, Status: topsv1.GcuResourceStatus{Phase: "Running"}}
		if err := c.Create(context.Background(), gr); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := c.Delete(context.Background(), gr); err != nil {
				t.Error(err)
			}
		})
		gr.Status.Phase = "Running"
		if err := c.Update(context.Background(), gr); err != nil {
			t.Fatal(err)
		}
		if gr.Status.Phase != "" {
			t.Errorf("the phase is %s", gr.Status.Phase)
		}
	})
}

// DaemonSets of the default blueprint, in deployment order.
var blueprint = []string{"enflame-node-feature-discovery", "enflame-gcu-docker-plugin", "enflame-gcu-k8s-plugin",
	"enflame-gcu-exporter", "enflame-gcu-feature-discovery"}

// TestContractDeployment deploys the default blueprint on an API server, with a restart of the
// operator in between.
func TestContractDeployment(t *testing.T) {
	s := newStage(t, "node-1", "node-2")
	s.stop()
	gr := example(t, "gcu-resource.json")
	s.must(s.Create(context.Background(), gr))
	t.Run("contract 44: the phase is empty until the operator writes it", func(t *testing.T) {
		if got := s.gr(gr.Name).Status; got.Phase != "" || got.Conditions != nil {
			t.Errorf("the status is %+v", got)
		}
	})
	s.written()
	s.start()
	s.has(&appsv1.DaemonSet{}, "kube-system", blueprint[0])
	s.reaches(gr.Name, "deploying", "0/5")
	t.Run("contract 6: the finalizer is the only one, and comes before the deploy condition", func(t *testing.T) {
		if diff := cmp.Diff([]string{"topsops.enflame.com/v1"}, s.gr(gr.Name).Finalizers); diff != "" {
			t.Errorf("finalizers (-want +got):\n%s", diff)
		}
		var writes []string
		for _, write := range s.written() {
			if strings.HasPrefix(write, "patch "+gr.Name) || strings.HasPrefix(write, "patch status ") || strings.HasPrefix(write, "apply ") {
				writes = append(writes, write)
			}
		}
		if writes[0] != "patch "+gr.Name || slices.Index(writes, "patch "+gr.Name) > slices.Index(writes, "patch status "+gr.Name) {
			t.Errorf("the writes are %v", writes)
		}
	})
	for i, name := range blueprint {
		t.Run(fmt.Sprintf("contract 51: component %d of 5 is created when the one before runs", i+1), func(t *testing.T) {
			s.has(&appsv1.DaemonSet{}, "kube-system", name)
			for _, later := range blueprint[i+1:] {
				if s.exists(later) {
					t.Errorf("%s exists before %s runs", later, name)
				}
			}
			s.reaches(gr.Name, "deploying", fmt.Sprintf("%d/5", i))
		})
		if i == 2 {
			t.Run("contract 53: after a restart it goes on where it stopped", func(t *testing.T) {
				before := s.uids()
				s.stop()
				s.start()
				s.play(name)
				s.has(&appsv1.DaemonSet{}, "kube-system", blueprint[i+1])
				after := s.uids()
				delete(after, blueprint[i+1])
				if diff := cmp.Diff(before, after); diff != "" {
					t.Errorf("DaemonSets (-before +after):\n%s", diff)
				}
			})
			continue
		}
		s.play(name)
	}
	s.reaches(gr.Name, "Running", "5/5")
	s.finished(gr.Name)
	s.settles(gr.Name)
}

// uids returns the UIDs of the DaemonSets of grs, by name.
func (s *stage) uids() map[string]string {
	s.t.Helper()
	var list appsv1.DaemonSetList
	s.must(s.List(context.Background(), &list, client.HasLabels{topsv1.LabelGcuResource}))
	uids := map[string]string{}
	for _, ds := range list.Items {
		uids[ds.Name] = string(ds.UID)
	}
	return uids
}

// finished compares the stored status of the deployed default blueprint with that in the guide.
func (s *stage) finished(name string) {
	gr := &unstructured.Unstructured{}
	gr.SetGroupVersionKind(topsv1.GroupVersion.WithKind(topsv1.GcuResourceKind))
	s.must(s.get(gr, "", name))
	status := gr.Object["status"].(map[string]any)
	same := func(name string, want, got any) {
		s.t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
		})
	}
	same("contract 36: clusterGCUNodes names every GCU node", []any{"node-1", "node-2"}, status["clusterGCUNodes"])
	conditions := status["conditions"].([]any)
	condition := conditions[0].(map[string]any)
	at, _ := condition["lastUpdateTime"].(string)
	_, err := time.Parse("2006-01-02T15:04:05Z", at)
	same("contract 40: lastUpdateTime is RFC 3339 in UTC, to the second", nil, err)
	delete(condition, "lastUpdateTime")
	same("contract 37, 38, 40 and 41: one condition, a success", []any{map[string]any{"action": "deploy", "type": "deploy",
		"message": "success", "progress": int64(100), "reason": "success", "status": "success"}}, conditions)
	same("contract 42: observedGeneration is that of the metadata", gr.GetGeneration(), status["observedGeneration"])
	same("contract 43: the phase is Running", "Running", status["phase"])
	same("contract 45: readyResource is 5/5", "5/5", status["readyResource"])
	var names []string
	for _, rs := range status["resourceStatuses"].([]any) {
		resource := rs.(map[string]any)
		names = append(names, resource["name"].(string)+" "+resource["namespace"].(string)+" "+resource["status"].(string))
	}
	same("contract 24, 46 and 47: resourceStatuses in deployment order", []string{"nfd kube-system Running", "toolkit kube-system Running",
		"devicePlugin kube-system Running", "exporter kube-system Running", "gfd kube-system Running"}, names)
	same("contract 48, 49 and 50: ownResources, without group for core kinds", []any{
		map[string]any{"group": "apps", "kind": "DaemonSet", "name": "enflame-gcu-exporter", "version": "v1"},
		map[string]any{"kind": "Service", "name": "enflame-gcu-exporter", "version": "v1"},
	}, status["resourceStatuses"].([]any)[3].(map[string]any)["ownResources"])
	same("contract 54: GCU nodes are labeled", "", s.marked("node-1", true)+s.marked("node-2", true))
}
