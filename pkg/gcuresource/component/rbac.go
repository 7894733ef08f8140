package component

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// identity is a ServiceAccount that may do in the whole cluster what a
// ClusterRole says.
type identity struct {
	namespace, account string
	// role and binding are names of cluster scoped objects.
	role, binding string
	// app is the value of LabelName.
	app   string
	rules []rbacv1.PolicyRule
}

func (i *identity) serviceAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metaOf(i.namespace, i.account, i.app),
	}
}

// clusterRole returns what the component may do. The operator may grant it
// because its own role names it: see docs/adr/0007-escalate.md.
func (i *identity) clusterRole() *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRole"},
		ObjectMeta: metaOf("", i.role, i.app),
		Rules:      i.rules,
	}
}

func (i *identity) clusterRoleBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
		ObjectMeta: metaOf("", i.binding, i.app),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: i.role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: i.account, Namespace: i.namespace}},
	}
}

// may is one rule; each list is separated by spaces, and core stands for the
// core group.
func may(verbs, group, resources string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: groups(group), Resources: strings.Fields(resources)}
}

func groups(list string) []string {
	names := strings.Fields(list)
	for i := range names {
		if names[i] == "core" {
			names[i] = ""
		}
	}
	return names
}
