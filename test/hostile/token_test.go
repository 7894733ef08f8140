package hostile

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// someTime is a time.
const someTime = "2026-01-01T00:00:00Z"

// object is JSON.
type object = map[string]any

// ref returns a reference with one field changed.
func ref(field, value string) object {
	r := object{"namespace": "a", "name": "b", "uid": "c"}
	if field != "" {
		r[field] = value
	}
	return r
}

func request(field string, value any) object {
	r := object{"id": "r", "daemonSet": ref("", ""), "pod": ref("", ""), "requestTime": someTime}
	if field != "" {
		r[field] = value
	}
	return object{"requests": []any{r}}
}

// TestAnAgentStoresNothingLongOrMalformed: attacks with the strings and lists that an agent may
// write.
func TestAnAgentStoresNothingLongOrMalformed(t *testing.T) {
	s := cluster(t)
	addNode(t, s, "greedy")
	agent := agentOf(t, s, "greedy")
	check(t, write(t, agent, "greedy", request("", nil), client.DryRunAll))
	long := strings.Repeat("x", 20_000)
	huge := strings.Repeat("x", 900_000) // was stored
	attacks := map[string]object{
		"a malformed pod name":          request("pod", ref("name", "a/b")),
		"a pod name with a newline":     request("pod", ref("name", "a\nb")),
		"a malformed namespace":         request("daemonSet", ref("namespace", "../a")),
		"a long UID":                    request("pod", ref("uid", long)),
		"a long revision":               request("revision", long),
		"a long id":                     request("id", long),
		"a long version":                {"agent": object{"version": long}},
		"a long capability":             {"agent": object{"capabilities": []string{long}}},
		"a long hold":                   {"agent": object{"hold": object{"since": someTime, "message": long}}},
		"a long driver version":         {"host": object{"time": someTime, "driverVersion": long}},
		"a long boot ID":                {"host": object{"time": someTime, "bootID": long}},
		"a long explanation":            {"host": object{"time": someTime, "missing": []string{huge}}},
		"a long command":                {"host": object{"time": someTime, "deviceHolders": []any{object{"pid": 1, "uid": 1, "command": long, "device": "d"}}}},
		"a long result":                 {"host": object{"time": someTime, "results": []any{object{"operation": "o", "task": "t", "state": "Done", "message": long}}}},
		"a time that Go cannot read":    {"host": object{"time": strings.ToLower(someTime)}},
		"a time with another separator": {"host": object{"time": strings.Replace(someTime, "Z", "_5Z", 1)}},
		"a time in a zone that is none": {"agent": object{"hold": object{"since": strings.Replace(someTime, "Z", "+99:99", 1)}}},
		"a long time":                   request("requestTime", someTime+"T"+long),
		"a long default runtime":        {"host": object{"time": someTime, "runtime": object{"engine": "docker", "default": long}}},
		"a thousand requests":           {"requests": requestsFor(1000)},
		"a thousand missing facts":      {"host": object{"time": someTime, "missing": make([]string, 1000)}},
		"a thousand capabilities":       {"agent": object{"capabilities": make([]string, 1000)}},
	}
	for what, status := range attacks {
		t.Run(what, func(t *testing.T) {
			if err := write(t, agent, "greedy", status, client.DryRunAll); !apierrors.IsInvalid(err) {
				t.Errorf("the API server says %.300v, want that it is invalid", err)
			}
		})
	}
}

// What the types of the operator cannot hold would stop every manager: its informer reads all objects of the kind, or none.
func TestAPolicyThatTheManagerCannotReadIsNotStored(t *testing.T) {
	admin := cluster(t).Client(t, apiserver.Admin)
	policy := func(spec object) error {
		return admin.Create(t.Context(), &unstructured.Unstructured{Object: object{"apiVersion": topsv1.GroupVersion.String(), "kind": "UpgradePolicy", "metadata": object{"name": "unreadable"}, "spec": spec}}, client.DryRunAll)
	}
	const many = int64(3_000_000_000)
	for what, spec := range map[string]object{
		"a large budget":       {"maxUnavailable": many},
		"a large pool":         {"pools": object{"topologyKey": "zone", "maxUnavailable": many}},
		"a large wave":         {"waves": []any{object{"name": "all", "size": many}}},
		"a large threshold":    {"failure": object{"threshold": many}},
		"a time in small type": {"failure": object{"rollbackNotBefore": strings.ToLower(someTime)}},
	} {
		if err := policy(spec); !apierrors.IsInvalid(err) {
			t.Errorf("%s: the API server says %v, want that it is invalid", what, err)
		}
	}
	check(t, policy(object{"maxUnavailable": int64(2_147_483_647), "failure": object{"rollbackNotBefore": "2026-01-01T01:00:00.5+01:00"}}))
}

// TestAnAgentHasFewFieldManagers: every apply under another name adds an entry to metadata, which its schema does not bound.
func TestAnAgentHasFewFieldManagers(t *testing.T) {
	s := cluster(t)
	addNode(t, s, "named")
	agent := agentOf(t, s, "named")
	check(t, write(t, agent, "named", request("", nil)))
	apply := func(i int) error {
		o := &unstructured.Unstructured{Object: object{"apiVersion": topsv1.GroupVersion.String(), "kind": "NodeUpgrade", "metadata": object{"name": "named"},
			"status": object{"agent": object{"version": "v1"}}}}
		return agent.Status().Apply(t.Context(), client.ApplyConfigurationFromUnstructured(o), client.FieldOwner(fmt.Sprint("name-", i)), client.ForceOwnership)
	}
	for i := range 40 {
		if err := apply(i); err != nil {
			if i < 20 || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "few names of field managers") {
				t.Errorf("name %d: %v", i, err)
			}
			return
		}
	}
	t.Error("an agent applies under 40 names")
}

// What an agent creates is stored as it is, but for the status.
func TestAnAgentCreatesNothingLong(t *testing.T) {
	s := cluster(t)
	agent := agentOf(t, s, "created")
	creates := func(change func(*topsv1.NodeUpgrade)) func() error {
		u := nodeUpgrade("created", "uid")
		change(u)
		return func() error { return agent.Create(t.Context(), u.DeepCopy(), client.DryRunAll) }
	}
	many := map[string]string{}
	for i := range 1000 {
		many[fmt.Sprintf("a-%d", i)] = "b"
	}
	refused(t, "a thousand labels", creates(func(u *topsv1.NodeUpgrade) { u.Labels = many }))
	refused(t, "a thousand annotations", creates(func(u *topsv1.NodeUpgrade) { u.Annotations = many }))
	refused(t, "a long annotation", creates(func(u *topsv1.NodeUpgrade) { u.Annotations = map[string]string{"a": strings.Repeat("x", 20_000)} }))
	huge := strings.Repeat("x", 900_000) // was stored, in each of these
	refused(t, "a long UID of its Node", creates(func(u *topsv1.NodeUpgrade) { u.OwnerReferences[0].UID = types.UID(huge) }))
	for what, fields := range map[string]string{
		"a long name of a field":             `{"f:spec":{"f:` + huge + `":{}}}`,
		"a long name of a field of metadata": `{"f:metadata":{"f:labels":{"f:` + huge + `":{}}}}`,
		"a long name deep in metadata":       `{"f:metadata":{"f:labels":{"f:a":{"f:` + huge + `":{}}}}}`,
		"many names of fields":               `{"f:metadata":{"f:labels":{` + strings.TrimSuffix(numbered(`"f:a-%d":{},`, 1000), ",") + `}}}`,
	} {
		for _, manager := range []string{"another", "hostile.test"} { // the name of a client's field manager is that of its program
			refused(t, what+" managed by "+manager, creates(func(u *topsv1.NodeUpgrade) {
				u.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: topsv1.GroupVersion.String(),
					FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}}
			}))
		}
	}
	check(t, creates(func(u *topsv1.NodeUpgrade) {
		u.Labels, u.Annotations = map[string]string{"a": "b"}, map[string]string{"a": "b"}
	})())
}

// numbered returns a format with each number below n.
func numbered(format string, n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, format, i)
	}
	return text.String()
}

// requestsFor returns requests for as many invented DaemonSets.
func requestsFor(n int) (list []any) {
	for i := range n {
		name := fmt.Sprint("invented-", i)
		list = append(list, object{"id": name, "daemonSet": object{"namespace": "a", "name": name, "uid": name}, "pod": ref("", ""), "requestTime": someTime})
	}
	return list
}

// TestEveryStringOfAnAgentIsBounded reads the served schema, so that a new field has a bound too.
func TestEveryStringOfAnAgentIsBounded(t *testing.T) {
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	check(t, cluster(t).Client(t, apiserver.Admin).Get(t.Context(), client.ObjectKey{Name: "nodeupgrades." + topsv1.GroupVersion.Group}, crd))
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	check(t, err)
	for _, part := range []string{"agent", "requests", "pulls", "host"} {
		schema, found, err := unstructured.NestedMap(versions[0].(object), "schema", "openAPIV3Schema", "properties", "status", "properties", part)
		if err != nil || !found {
			t.Fatalf("status.%s has no schema: %v", part, err)
		}
		for _, unbounded := range unboundedIn("status."+part, schema) {
			t.Errorf("%s has no bound", unbounded)
		}
	}
}

// unboundedIn returns the paths of a schema that may be of any length.
func unboundedIn(path string, schema object) (paths []string) {
	has := func(key string) bool { _, ok := schema[key]; return ok }
	switch schema["type"] {
	case "string":
		if !has("maxLength") && !has("enum") && (schema["format"] != "date-time" || !has("pattern")) { // the format allows what Go cannot read, of any length
			return []string{path}
		}
	case "array":
		if !has("maxItems") {
			paths = append(paths, path)
		}
		paths = append(paths, unboundedIn(path+"[]", schema["items"].(object))...)
	case "object":
		properties, _ := schema["properties"].(object)
		if properties == nil && !has("maxProperties") {
			return []string{path}
		}
		for name, of := range properties {
			paths = append(paths, unboundedIn(path+"."+name, of.(object))...)
		}
	}
	slices.Sort(paths)
	return paths
}
