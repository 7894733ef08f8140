package hostile

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

const nfdAccount = "nfd-service-account"

// Root on a node has the token of nfd there, whose role lets it write all nodes.
func TestNFDWritesFeaturesOfItsOwnNodeOnly(t *testing.T) {
	p := sharedPlane(t)
	ctx := t.Context()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: nfdAccount}}
	check(t, client.IgnoreAlreadyExists(p.admin.Create(ctx, account)))
	own := p.addNode(t, "nfd-own")
	other := p.addNode(t, "nfd-other")
	check(t, merge(ctx, p.admin, own, `{"metadata":{"labels":{"zone":"a"},"annotations":{"a":"b"}},"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}`))
	nfd := p.as(t, p.inPod(t, nfdAccount, own))
	patch := func(c client.Client, node *corev1.Node, body string) func() error {
		return func() error { return merge(ctx, c, node.DeepCopy(), body, client.DryRunAll) }
	}
	const feature = `{"metadata":{"labels":{"feature.node.kubernetes.io/pci-1e36.present":"true"}}}`
	forbidden(t, "label another node", patch(nfd, other, feature))
	for _, attempt := range []struct{ what, body, says string }{
		{"a taint", `{"spec":{"taints":[{"key":"x","effect":"NoExecute"}]}}`, "nfd changes labels and annotations of a node only"},
		{"no taint", `{"spec":{"taints":null}}`, "nfd changes labels and annotations of a node only"},
		{"cordon", `{"spec":{"unschedulable":true}}`, "nfd changes labels and annotations of a node only"},
		{"an owner", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]}}`, "nfd changes labels and annotations of a node only"},
		{"a finalizer", `{"metadata":{"finalizers":["example.com/f"]}}`, "nfd changes labels and annotations of a node only"},
		{"another label", `{"metadata":{"labels":{"zone":"b"}}}`, "nfd writes no label zone"},
		{"no label", `{"metadata":{"labels":{"zone":null}}}`, "nfd writes no label zone"},
		{"a label of the operator", `{"metadata":{"labels":{"` + topsv1.GroupVersion.Group + `/x":"y"}}}`, "nfd writes no label topsops.enflame.com/x"},
		{"a label that ends like its own", `{"metadata":{"labels":{"myfeature.node.kubernetes.io/x":"y"}}}`, "nfd writes no label myfeature"},
		{"another annotation", `{"metadata":{"annotations":{"a":null}}}`, "nfd writes no annotation a"},
	} {
		t.Run(attempt.what, func(t *testing.T) {
			deniedBy(t, "gcu-nfd", patch(nfd, own, attempt.body)(), attempt.says)
		})
	}
	deniedBy(t, "gcu-nfd", patch(nfd, other, feature)(), "nfd of node nfd-own may not write node nfd-other, only its own")
	deniedBy(t, "gcu-nfd", patch(p.as(t, p.account(t, nfdAccount, nil)), own, feature)(), "does not say on which node it is")
	elsewhere := as(t, p.Server, rest.ImpersonationConfig{UserName: "system:serviceaccount:other:" + nfdAccount, Groups: []string{"system:masters"},
		Extra: map[string][]string{nodeNameClaim: {own.Name}}})
	deniedBy(t, "gcu-nfd", patch(elsewhere, other, feature)(), "only its own")

	write := func(body string) { check(t, merge(ctx, nfd, own.DeepCopy(), body)) }
	write(`{"metadata":{"labels":{"feature.node.kubernetes.io/pci-1e36.present":"true","vendor.feature.node.kubernetes.io/x":"y","profile.node.kubernetes.io/p":"q","enflame.com/gcu.count":"8"},
		"annotations":{"nfd.node.kubernetes.io/feature-labels":"enflame.com/gcu.count","nfd.node.kubernetes.io/master.version":"v0.11.3"}}}`)
	write(`{"metadata":{"labels":{"enflame.com/gcu.count":null},"annotations":{"nfd.node.kubernetes.io/feature-labels":""}}}`)
}
