package hostile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// deniedByPolicy checks that the policy of node agents rejected a request with a message.
func deniedByPolicy(t *testing.T, err error, says string) {
	t.Helper()
	deniedBy(t, "gcu-node-agent", err, says)
}

// deniedBy checks that a policy rejected a request with a message.
func deniedBy(t *testing.T, policy string, err error, says string) {
	t.Helper()
	by := fmt.Sprintf("ValidatingAdmissionPolicy '%s' with binding '%[1]s' denied request: ", policy)
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), by) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "resulted in error") {
		t.Errorf("%v\nwant it rejected by the policy with %q", err, says)
	}
}

// show applies a part of the status like the agent, as a dry run.
func show(ctx context.Context, c client.Client, name, status string) error {
	body := fmt.Sprintf(`{"apiVersion":"topsops.enflame.com/v1","kind":"NodeUpgrade","metadata":{"name":%q},"status":%s}`, name, status)
	n := &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return c.Status().Patch(ctx, n, client.RawPatch(types.ApplyPatchType, []byte(body)), client.FieldOwner("gcu-node-agent"), client.ForceOwnership, client.DryRunAll)
}

const hello = `{"agent":{"version":"v1"}}`

func TestAnAgentWritesNoOtherNode(t *testing.T) {
	p := sharedPlane(t)
	own, other := p.addNode(t, "mine"), p.addNode(t, "theirs")
	agent := p.as(t, p.agentInPod(t, own))
	const says = "the node agent of node mine may not write NodeUpgrade theirs, only that of its own node"
	deniedByPolicy(t, agent.Create(t.Context(), ownedBy(other.Name)), says)
	p.addNodeUpgrade(t, own)
	p.addNodeUpgrade(t, other)
	deniedByPolicy(t, show(t.Context(), agent, other.Name, hello), says)
	check(t, show(t.Context(), agent, own.Name, hello))
}

func TestATokenThatNamesNoNodeIsRefused(t *testing.T) {
	p := sharedPlane(t)
	node := p.addNode(t, "nameless")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bound-to"}}
	check(t, p.admin.Create(t.Context(), secret))
	for kind, identity := range map[string]*rest.Config{
		"bound to nothing":  p.account(t, agentAccount, nil),
		"bound to a Secret": p.account(t, agentAccount, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: secret.Name, UID: secret.UID}),
		"kept in a Secret":  p.agentWithSecret(t, "legacy"),
	} {
		t.Run(kind, func(t *testing.T) {
			agent := p.as(t, identity)
			check(t, agent.List(t.Context(), &topsv1.NodeUpgradeList{})) // reading is allowed
			const says = "not the token of a Secret"
			deniedByPolicy(t, agent.Create(t.Context(), ownedBy(node.Name), client.DryRunAll), says)
		})
	}
	p.addNodeUpgrade(t, node)
	deniedByPolicy(t, show(t.Context(), p.as(t, p.account(t, agentAccount, nil)), node.Name, hello), "not the token of a Secret")
}

// attempt is a request that the policy rejects, even if a role allows it.
type attempt struct {
	what, says string
	// do is called with a NodeUpgrade of the node, which does not exist yet for a
	// creation. All requests are dry runs.
	do func(ctx context.Context, c client.Client, n *topsv1.NodeUpgrade) error
}

// creation is an attempt to create a valid NodeUpgrade with one change.
func creation(what, says string, change func(*topsv1.NodeUpgrade)) attempt {
	return attempt{what, says, func(ctx context.Context, c client.Client, n *topsv1.NodeUpgrade) error {
		change(n)
		return c.Create(ctx, n, client.DryRunAll)
	}}
}

// edit is an attempt to change a NodeUpgrade with a merge patch.
func edit(what, says, patch string) attempt {
	return attempt{what, says, func(ctx context.Context, c client.Client, n *topsv1.NodeUpgrade) error {
		return c.Patch(ctx, n, client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
	}}
}

func creations() []attempt {
	const owner, orders = "with one owner, which is the Node", "these are orders to the operator"
	return []attempt{
		creation("with a spec", "without a spec", func(n *topsv1.NodeUpgrade) { n.Spec.Operation = operation(n) }),
		creation("without an owner", owner, func(n *topsv1.NodeUpgrade) { n.OwnerReferences = nil }),
		creation("with a Pod as its owner", owner, func(n *topsv1.NodeUpgrade) { n.OwnerReferences[0].Kind = "Pod" }),
		creation("with a Node of another group as its owner", owner, func(n *topsv1.NodeUpgrade) { n.OwnerReferences[0].APIVersion = "example.com/v1" }),
		creation("with another Node as its owner", owner, func(n *topsv1.NodeUpgrade) { n.OwnerReferences[0].Name = "another" }),
		creation("with two owners", owner, func(n *topsv1.NodeUpgrade) {
			n.OwnerReferences = append(n.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: n.Name, UID: "second"})
		}),
		creation("with a finalizer", orders, func(n *topsv1.NodeUpgrade) { n.Finalizers = []string{"example.com/stay"} }),
		creation("with an order to the operator", orders, func(n *topsv1.NodeUpgrade) {
			n.Annotations = map[string]string{topsv1.AnnotationTaskOverride: "skip:a_driver_verify"}
		}),
	}
}

func edits() []attempt {
	const says = "it may not change spec or metadata, nor delete it"
	return []attempt{
		{"asking for an operation", says, func(ctx context.Context, c client.Client, n *topsv1.NodeUpgrade) error {
			n.Spec.Operation = operation(n)
			return c.Update(ctx, n, client.DryRunAll)
		}},
		edit("taking an operation away", says, `{"spec":{"operation":null}}`),
		edit("giving an order to the operator", says, `{"metadata":{"annotations":{"topsops.enflame.com/task-override":"skip:a_driver_verify"}}}`),
		edit("holding it with a finalizer", says, `{"metadata":{"finalizers":["example.com/stay"]}}`),
		edit("taking its owner away", says, `{"metadata":{"ownerReferences":null}}`),
		{"deleting it", says, func(ctx context.Context, c client.Client, n *topsv1.NodeUpgrade) error {
			return c.Delete(ctx, n, client.DryRunAll)
		}},
		{"deleting all", "", func(ctx context.Context, c client.Client, _ *topsv1.NodeUpgrade) error {
			return c.DeleteAllOf(ctx, &topsv1.NodeUpgrade{}, client.DryRunAll)
		}},
	}
}

func operation(n *topsv1.NodeUpgrade) *topsv1.NodeOperation {
	with := n.DeepCopy()
	ask(with, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: "uid"}})
	return with.Spec.Operation
}

// TestThePolicyStandsOnItsOwn: the policy rejects all attempts of an agent with all
// rights that a role can grant. Another account succeeds, so the requests are otherwise
// valid.
func TestThePolicyStandsOnItsOwn(t *testing.T) {
	p := sharedPlane(t)
	absent := p.addNode(t, "absent")
	present := p.addNodeUpgrade(t, p.addNode(t, "present"))
	other := p.as(t, p.unrestrictedAccount(t))
	for n, attempts := range map[*topsv1.NodeUpgrade][]attempt{ownedBy(absent.Name): creations(), present: edits()} {
		agent := p.as(t, p.powerful(n.Name))
		for _, a := range attempts {
			t.Run(a.what, func(t *testing.T) {
				deniedByPolicy(t, a.do(t.Context(), agent, n.DeepCopy()), a.says)
				if err := a.do(t.Context(), other, n.DeepCopy()); err != nil {
					t.Errorf("the other account: %v", err)
				}
			})
		}
	}
	check(t, p.as(t, p.powerful(absent.Name)).Create(t.Context(), labeled(ownedBy(absent.Name)), client.DryRunAll))
}

// labeled returns a NodeUpgrade with a label that a webhook adds to every object.
func labeled(n *topsv1.NodeUpgrade) *topsv1.NodeUpgrade {
	n.Labels = map[string]string{"example.com/team": "a"}
	n.Annotations = map[string]string{"example.com/seen": "true"}
	return n
}

// unrestrictedAccount returns another ServiceAccount with all rights.
func (p *plane) unrestrictedAccount(t *testing.T) *rest.Config {
	t.Helper()
	const name = "somebody"
	check(t, p.admin.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	check(t, p.admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: namespace, Name: name}},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}}))
	config := p.account(t, name, nil)
	as := p.as(t, config)
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		return as.List(ctx, &corev1.SecretList{}) == nil, nil
	})
	if err != nil {
		t.Fatalf("waiting until the role of %s is known: %v", name, err)
	}
	return config
}

// parts returns a value for each part of the status, and whether the agent writes it.
func parts() map[string]struct {
	agents bool
	value  string
} {
	type part = struct {
		agents bool
		value  string
	}
	return map[string]part{
		"agent":     {true, `{"version":"v1"}`},
		"requests":  {true, `[{"id":"r","daemonSet":{"namespace":"a","name":"b","uid":"c"},"pod":{"namespace":"a","name":"b","uid":"c"},"requestTime":"2026-01-01T00:00:00Z"}]`},
		"pulls":     {true, `[{"id":"p","daemonSet":{"namespace":"a","name":"b","uid":"c"},"pod":{"namespace":"a","name":"b","uid":"c"},"revision":"r","state":"Ready","time":"2026-01-01T00:00:00Z"}]`},
		"host":      {true, `{"time":"2026-01-01T00:00:00Z"}`},
		"tasks":     {false, `[{"requestID":"r","name":"a_b_c","state":"Done"}]`},
		"operation": {false, `{"id":"op","phase":"Done","since":"2026-01-01T00:00:00Z","startTime":"2026-01-01T00:00:00Z"}`},
		"history":   {false, `[{"id":"op","phase":"Done","startTime":"2026-01-01T00:00:00Z","endTime":"2026-01-01T00:00:00Z","result":{}}]`},
	}
}

// TestEachPartOfTheStatusHasItsWriter sets and removes each status field of the CRD, as
// the agent and as others.
func TestEachPartOfTheStatusHasItsWriter(t *testing.T) {
	p := sharedPlane(t)
	empty := p.addNodeUpgrade(t, p.addNode(t, "empty"))
	full := p.addNodeUpgrade(t, p.addNode(t, "full"))
	all := parts()
	var fields []string
	for name, part := range all {
		fields = append(fields, fmt.Sprintf("%q:%s", name, part.value))
	}
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{`+strings.Join(fields, ",")+`}}`))
	check(t, p.admin.Status().Patch(t.Context(), full.DeepCopy(), status))
	slices.Sort(fields)
	if known, inCRD := slices.Sorted(maps.Keys(all)), p.statusFields(t); !slices.Equal(known, inCRD) {
		t.Fatalf("the CRD has status fields %v, this test has %v: add their writers in config/admission and here", inCRD, known)
	}
	for name, part := range all {
		for what, attempt := range map[string]func(client.Client) error{
			"applied": func(c client.Client) error {
				return show(t.Context(), c, empty.Name, fmt.Sprintf("{%q:%s}", name, part.value))
			},
			"taken away": func(c client.Client) error {
				patch := client.RawPatch(types.MergePatchType, []byte(fmt.Sprintf(`{"status":{%q:null}}`, name)))
				return c.Status().Patch(t.Context(), full.DeepCopy(), patch, client.DryRunAll)
			},
		} {
			t.Run(name+" "+what, func(t *testing.T) {
				check(t, attempt(p.admin))
				on := map[string]string{"applied": empty.Name, "taken away": full.Name}[what]
				if err := attempt(p.as(t, p.powerful(on))); part.agents {
					check(t, err)
				} else {
					deniedByPolicy(t, err, "the rest of the status is the operator's")
				}
			})
		}
	}
}

// statusFields returns the names of the status fields of a NodeUpgrade, sorted.
func (p *plane) statusFields(t *testing.T) []string {
	t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	check(t, p.admin.Get(t.Context(), client.ObjectKey{Name: "nodeupgrades.topsops.enflame.com"}, crd))
	versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
	check(t, err)
	if len(versions) != 1 {
		t.Fatalf("the CRD has %d versions", len(versions))
	}
	fields, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "status", "properties")
	check(t, err)
	return slices.Sorted(maps.Keys(fields))
}

// TestTheOperatorWritesAnyNode: the policy does not apply to the operator.
func TestTheOperatorWritesAnyNode(t *testing.T) {
	p := sharedPlane(t)
	p.addNode(t, "operated")
	operator := p.as(t, p.account(t, managerAccount, nil))
	n := ownedBy("operated")
	n.Spec.Operation = operation(n)
	check(t, operator.Create(t.Context(), n))
	check(t, show(t.Context(), operator, n.Name, `{"tasks":`+parts()["tasks"].value+`,"history":`+parts()["history"].value+`}`))
	check(t, edit("", "", `{"spec":{"operation":{"abort":true}}}`).do(t.Context(), operator, n))
}

// TestALongStatusIsComparedToo: the largest status must not exceed the cost budget of
// the CEL rules.
func TestALongStatusIsComparedToo(t *testing.T) {
	p := sharedPlane(t)
	n := p.addNodeUpgrade(t, p.addNode(t, "long"))
	before := n.DeepCopy()
	now := metav1.Now()
	text := strings.Repeat("a message of some length ", 20)
	n.Status.Operation = &topsv1.OperationStatus{ID: "op", Phase: topsv1.OperationDone, Since: now, StartTime: now, Message: text}
	for i := range 64 {
		id := fmt.Sprint("r-", i)
		ref := topsv1.NamespacedRef{Namespace: "a", Name: strings.Repeat("a", 63), UID: types.UID(id)}
		n.Status.Requests = append(n.Status.Requests, topsv1.UpgradeRequest{ID: id, DaemonSet: ref, Pod: ref, RequestTime: now})
		n.Status.Tasks = append(n.Status.Tasks, topsv1.UpgradeTask{RequestID: id, Name: "a_b_c", State: topsv1.TaskDone, Message: text})
		n.Status.Operation.Tasks = append(n.Status.Operation.Tasks, topsv1.OperationTask{Name: id, State: topsv1.OperationTaskDone, Message: text})
	}
	for i := range 20 {
		n.Status.History = append(n.Status.History, topsv1.OperationRecord{ID: fmt.Sprint("op-", i), Phase: topsv1.OperationDone, Message: text,
			StartTime: now, EndTime: now, Result: topsv1.OperationResult{Done: slices.Repeat([]string{"a_b_c"}, 64)}})
	}
	check(t, p.admin.Status().Patch(t.Context(), n, client.MergeFrom(before)))
	agent := p.as(t, p.powerful(n.Name))
	check(t, show(t.Context(), agent, n.Name, hello))
	deniedByPolicy(t, show(t.Context(), agent, n.Name, `{"tasks":[{"requestID":"r-63","name":"a_b_c","state":"Failed"}]}`), "the rest of the status is the operator's")
}
