package hostile

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// Who has the token of the manager, as the shipped manifests leave it, tries what would make it an
// administrator of the cluster, or take away what is not the operator's.
func TestTheTokenOfTheManagerDoesNotReachFurtherThanItsComponents(t *testing.T) {
	s := cluster(t)
	admin, manager := s.Client(t, apiserver.Admin), s.Client(t, apiserver.Operator)
	check(t, apiextensionsv1.AddToScheme(s.Scheme))
	ctx := t.Context()

	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "manager"}, Spec: topsv1.GcuResourceSpec{GFD: &topsv1.BaseFields{NotDeploy: true}}}
	check(t, admin.Create(ctx, gr))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "manager-node", Labels: map[string]string{"zone": "a"}}}
	check(t, admin.Create(ctx, node))
	awaitManagerPolicies(t, manager, gr, node)
	foreign := &corev1.ConfigMap{ObjectMeta: inOperators("foreign")}
	check(t, admin.Create(ctx, foreign))
	foreignSet := daemonSet("foreign", "")
	check(t, admin.Create(ctx, foreignSet))
	foreignAccount := &corev1.ServiceAccount{ObjectMeta: inOperators("foreign")}
	check(t, admin.Create(ctx, foreignAccount))
	pod := &corev1.Pod{ObjectMeta: inOperators("alone"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}, NodeName: node.Name}}
	check(t, admin.Create(ctx, pod))
	mine := daemonSet("mine", "nfd-service-account", controlledBy(gr))
	allowed(t, "create a DaemonSet of a gr", func() error { return manager.Create(ctx, mine) })
	allowed(t, "change it", func() error { return merge(ctx, manager, mine, `{"metadata":{"annotations":{"a":"b"}}}`) })
	allowed(t, "label a node", func() error {
		return merge(ctx, manager, node, `{"metadata":{"labels":{"enflame.com/gcu.present":"true"}},"spec":{"unschedulable":true,"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"},{"key":"topsops.enflame.com/driver-upgrade","effect":"NoSchedule"}]}}`)
	})
	check(t, admin.Get(ctx, client.ObjectKeyFromObject(node), node))

	role := client.RawPatch(types.MergePatchType, []byte(`{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`))
	for what, attempt := range map[string]func() error{
		"widen the role of a component": func() error {
			return manager.Patch(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "nfd-clusterrole"}}, role)
		},
		"widen its own role": func() error {
			return manager.Patch(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "gcu-operator"}}, role)
		},
		"bind a role": func() error {
			return manager.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "x"},
				RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "nfd-clusterrole"},
				Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: apiserver.Namespace, Name: "gcu-operator"}}})
		},
		"get the token of another account in the one Secret that it may read": func() error {
			return manager.Create(ctx, tokenSecret())
		},
		"create another Secret": func() error {
			return manager.Create(ctx, &corev1.Secret{ObjectMeta: inOperators("bootstrap-token-abcdef"), Type: "bootstrap.kubernetes.io/token"})
		},
		"run pods as another account": func() error {
			return manager.Create(ctx, daemonSet("thief", "foreign", controlledBy(gr)))
		},
		"run pods as another account, by the former name of the field": func() error {
			ds := daemonSet("thief", "", controlledBy(gr))
			ds.Spec.Template.Spec.DeprecatedServiceAccount = "foreign"
			return manager.Create(ctx, ds)
		},
		"give its own component another account": func() error {
			return merge(ctx, manager, mine, `{"spec":{"template":{"spec":{"serviceAccountName":"foreign"}}}}`)
		},
		"create a workload of no gr": func() error { return manager.Create(ctx, daemonSet("free", "")) },
		"change another DaemonSet": func() error {
			return merge(ctx, manager, foreignSet, `{"spec":{"template":{"metadata":{"labels":{"a":"b"}}}}}`)
		},
		"make another DaemonSet a component": func() error {
			patch := foreignSet.DeepCopy()
			patch.OwnerReferences = controlledBy(gr)
			return manager.Patch(ctx, patch, client.MergeFrom(foreignSet))
		},
		"delete another DaemonSet":      func() error { return manager.Delete(ctx, foreignSet) },
		"change another ConfigMap":      func() error { return merge(ctx, manager, foreign, `{"data":{"a":"b"}}`) },
		"delete another ConfigMap":      func() error { return manager.Delete(ctx, foreign) },
		"delete another ServiceAccount": func() error { return manager.Delete(ctx, foreignAccount) },
		"delete a pod of no DaemonSet":  func() error { return manager.Delete(ctx, pod) },
		"label a node as a control plane": func() error {
			return merge(ctx, manager, node, `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`)
		},
		"change another label of a node": func() error { return merge(ctx, manager, node, `{"metadata":{"labels":{"zone":"b"}}}`) },
		"taint a node with another key": func() error {
			return merge(ctx, manager, node, `{"spec":{"taints":[{"key":"node.kubernetes.io/not-ready","effect":"NoSchedule"},{"key":"topsops.enflame.com/driver-upgrade","effect":"NoSchedule"},{"key":"x","effect":"NoExecute"}]}}`)
		},
		"name the machine of a node": func() error { return merge(ctx, manager, node, `{"spec":{"providerID":"cloud:///zone/another"}}`) },
		"give a node addresses for its pods": func() error {
			return merge(ctx, manager, node, `{"spec":{"podCIDR":"10.0.0.0/24","podCIDRs":["10.0.0.0/24"]}}`)
		},
		"change the definition of a kind": func() error {
			return merge(ctx, manager, crd("gcuresources.topsops.enflame.com"), `{"metadata":{"labels":{"a":"b"}}}`)
		},
		"define a kind": func() error { return manager.Create(ctx, crd("widgets.example.com")) },
		"create a namespace with a label that means something to others": func() error {
			return manager.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "labeled", Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}}, client.DryRunAll)
		},
		"create a namespace with an annotation": func() error {
			return manager.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "annotated", Annotations: map[string]string{"example.com/a": "b"}}}, client.DryRunAll)
		},
		"see every request through a webhook": func() error {
			return manager.Create(ctx, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "volcano-admission-service-pods-mutate"}})
		},
		"switch a webhook off": func() error {
			return manager.Delete(ctx, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "policy"}})
		},
	} {
		if err := attempt(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// awaitManagerPolicies waits until the API server enforces each policy of the manager.
func awaitManagerPolicies(t *testing.T, manager client.Client, gr *topsv1.GcuResource, node *corev1.Node) {
	t.Helper()
	ctx := t.Context()
	for _, attempt := range []func() error{
		func() error {
			return manager.Create(ctx, &corev1.ConfigMap{ObjectMeta: inOperators("await")}, client.DryRunAll)
		},
		func() error {
			return manager.Create(ctx, daemonSet("await", "foreign", controlledBy(gr)), client.DryRunAll)
		},
		func() error { return manager.Create(ctx, tokenSecret(), client.DryRunAll) },
		func() error {
			return merge(ctx, manager, node, `{"metadata":{"labels":{"zone":"b"}}}`, client.DryRunAll)
		},
	} {
		check(t, wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(context.Context) (bool, error) {
			return apierrors.IsForbidden(attempt()), nil
		}))
	}
}

// tokenSecret returns the one Secret that the manager may read, with a token of another account.
func tokenSecret() *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: inOperators("nightingale-mysql"), Type: corev1.SecretTypeServiceAccountToken}
	secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	return secret
}

func merge(ctx context.Context, c client.Client, o client.Object, patch string, options ...client.PatchOption) error {
	return c.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)), options...)
}

// inOperators is the metadata of an object in the namespace of the operator.
func inOperators(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: apiserver.Namespace, Name: name}
}

func controlledBy(gr *topsv1.GcuResource) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: topsv1.GroupVersion.String(), Kind: topsv1.GcuResourceKind, Name: gr.Name, UID: gr.UID, Controller: ptr.To(true)}}
}

// daemonSet returns a DaemonSet that runs as a ServiceAccount.
func daemonSet(name, account string, owners ...[]metav1.OwnerReference) *appsv1.DaemonSet {
	labels := map[string]string{"app": name}
	ds := &appsv1.DaemonSet{ObjectMeta: inOperators(name), Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
	}}
	for _, list := range owners {
		ds.OwnerReferences = list
	}
	return ds
}

// crd returns the definition of a kind, plural.group.
func crd(name string) *apiextensionsv1.CustomResourceDefinition {
	plural, group, _ := strings.Cut(name, ".")
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: apiextensionsv1.CustomResourceDefinitionSpec{
		Group: group, Scope: apiextensionsv1.ClusterScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Singular: "x", Kind: "X", ListKind: "XList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1", Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}}}},
	}}
}
