package gcuresource

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// operator is the account the controllers run as: what it may do is what the
// generated role says.
const operator = "system:serviceaccount:kube-system:gcu-operator"

// giveRights applies the role of the operator.
func giveRights(config *rest.Config) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	for _, file := range []string{"service_accounts.yaml", "manager_role.yaml", "bindings.yaml"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "config", "rbac", file))
		if err != nil {
			return err
		}
		for _, document := range strings.Split(string(raw), "\n---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				return fmt.Errorf("decoding %s: %w", file, err)
			}
			if !strings.HasPrefix(object.GetKind(), "Cluster") {
				object.SetNamespace("kube-system") // as kustomize does
			}
			if err := c.Create(context.Background(), object); err != nil {
				return fmt.Errorf("creating %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	return nil
}
