package hostile

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Only config/gate lets the manager create pods or change their specs.
func TestWithoutTheGateTheManagerNeitherCreatesNorPatchesPods(t *testing.T) {
	writes := func(file string) (roles int, verbs []string) {
		text, err := os.ReadFile(filepath.Join("..", "..", "config", file))
		check(t, err)
		for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 1<<16); ; {
			var role rbacv1.ClusterRole // a Role has the same rules
			err := decoder.Decode(&role)
			if errors.Is(err, io.EOF) {
				return roles, verbs
			}
			check(t, err)
			if len(role.Rules) > 0 {
				roles++
			}
			for _, rule := range role.Rules {
				if !slices.Contains(rule.Resources, "pods") && !slices.Contains(rule.Resources, "*") {
					continue
				}
				for _, verb := range rule.Verbs {
					if slices.Contains([]string{"*", "create", "update", "patch"}, verb) {
						verbs = append(verbs, verb)
					}
				}
			}
		}
	}
	if roles, verbs := writes("rbac/manager_role.yaml"); roles == 0 || len(verbs) > 0 {
		t.Errorf("%d roles, which let the manager %v pods", roles, verbs)
	}
	if _, verbs := writes("gate/rights.yaml"); !slices.Equal(verbs, []string{"create", "patch"}) {
		t.Errorf("the gate lets the manager %v pods", verbs)
	}
}
