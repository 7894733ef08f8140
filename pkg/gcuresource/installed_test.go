package gcuresource

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/component"
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
