package gcuresource

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/test/world"
)

// installedRoles returns the roles and bindings that an administrator installs.
func installedRoles(t *testing.T) (roles []client.Object) {
	t.Helper()
	files, err := component.InstalledYAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range files {
		for _, document := range strings.Split(text, "---\n")[1:] {
			role := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &role.Object); err != nil {
				t.Fatal(err)
			}
			roles = append(roles, role)
		}
	}
	return roles
}

// The operator lists the roles of a component, and never writes them. Where one is missing, or bound to
// another account, nothing of the component is created until it is there.
func TestAComponentWaitsForItsRoles(t *testing.T) {
	s := newStage(t, "n1")
	ctx := context.Background()
	binding := &rbacv1.ClusterRoleBinding{}
	s.must(s.Get(ctx, clusterKey("nfd-clusterrolebinding"), binding))
	before := binding.DeepCopy()
	binding.Subjects[0].Namespace = "elsewhere"
	s.must(s.Update(ctx, binding))
	t.Cleanup(func() {
		before.ResourceVersion = ""
		s.must(s.Update(ctx, before))
	})
	s.must(s.Create(ctx, world.NewGR(topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{}})))
	const what = "ClusterRoleBinding nfd-clusterrolebinding is missing, or does not bind ServiceAccount kube-system/nfd-service-account: " +
		"an administrator has to install it, with kubectl apply --server-side -k config/rbac (docs/install.md, rights of the components)"
	s.sees("gpu", "nfd", "failed", what)
	if s.exists("node-feature-discovery-ds") {
		t.Error("its DaemonSet was created")
	}
	binding.Subjects = append(binding.Subjects, before.Subjects...)
	s.must(s.Update(ctx, binding))
	s.until("nfd without its roles", func() string {
		if s.exists("node-feature-discovery-ds") {
			return ""
		}
		return "no DaemonSet"
	})
	for _, write := range s.written() {
		if strings.Contains(write, "nfd-clusterrole") {
			t.Errorf("it has written: %s", write)
		}
	}
}

// Every helm upgrade restores the shipped bindings, so that a component in another namespace has a binding of its own.
func TestAnyBindingOfTheRoleToTheAccountCounts(t *testing.T) {
	gr := world.NewGR(topsv1.GcuResourceSpec{NFD: &topsv1.NFDSpec{Namespace: "elsewhere"}})
	binding := func(name, role, account, namespace string) *rbacv1.ClusterRoleBinding {
		return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: account, Namespace: namespace}}}
	}
	const role, account = "nfd-clusterrole", "nfd-service-account"
	for name, tc := range map[string]struct {
		own  *rbacv1.ClusterRoleBinding
		want bool
	}{
		"of the role to the account": {binding("mine", role, account, "elsewhere"), true},
		"of another role":            {binding("mine", "view", account, "elsewhere"), false},
		"to another account":         {binding("mine", role, "default", "elsewhere"), false},
		"in another namespace":       {binding("mine", role, account, "other"), false},
	} {
		for _, shipped := range []*rbacv1.ClusterRoleBinding{binding("nfd-clusterrolebinding", role, account, "kube-system"), binding("unrelated", role, account, "kube-system")} {
			store := fakeStore(t, tc.own, shipped)
			c := state.Component{Rendered: world.Render(t, gr)[0]}
			if err := (stateReader{Reader: store, APIReader: store, cache: &indexedCache{}}).readComponent(t.Context(), &state.Observation{Resource: gr}, &c); err != nil {
				t.Fatal(err)
			}
			for _, d := range c.Objects {
				if d.Ref.Kind == "ClusterRoleBinding" && (c.Live[d.Ref] != nil) != tc.want {
					t.Errorf("a binding %s, beside %s: it counts as %v", name, shipped.Name, c.Live[d.Ref])
				}
			}
		}
	}
}
