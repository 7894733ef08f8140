package component

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// InstalledYAML returns, by the path of a YAML file, the objects of components that an administrator
// installs, with their built-in names. An error is a bug in this program.
func InstalledYAML() (map[string]string, error) {
	files := map[string]string{}
	for i := range catalog {
		list, err := manifestOf(catalog[i].Name)
		if err != nil {
			return nil, err
		}
		for _, o := range list {
			if !RefOf(o).Installed() {
				continue
			}
			o.SetLabels(map[string]string{LabelName: o.GetLabels()[LabelName], topsv1.LabelComponent: catalog[i].Name})
			d, err := desired(o)
			if err != nil {
				return nil, err
			}
			document, err := yaml.Marshal(d.Object.Object)
			if err != nil {
				return nil, err
			}
			files[InstalledBy(catalog[i].Name)+"/components.yaml"] += "---\n" + string(document)
		}
	}
	return files, nil
}

// InstalledBy returns the kustomization that installs the roles and bindings of a component. Volcano has its
// own: its roles read Secrets, and where volcano is not deployed its namespace may belong to anyone.
func InstalledBy(component string) string {
	if component == Volcano {
		return "config/volcano"
	}
	return "config/rbac"
}

// Binds reports whether a ClusterRoleBinding grants what a component needs: the role to the
// ServiceAccount of its pods. It may have other subjects.
func Binds(d *Desired, live *rbacv1.ClusterRoleBinding) bool {
	want := d.binding()
	return want.RoleRef == live.RoleRef && !slices.ContainsFunc(want.Subjects, func(s rbacv1.Subject) bool {
		return !slices.Contains(live.Subjects, s)
	})
}

// BoundAccount returns the ServiceAccount, namespace/name, to which a binding grants its role; ""
// for other objects.
func (d *Desired) BoundAccount() string {
	for _, s := range d.binding().Subjects {
		return s.Namespace + "/" + s.Name
	}
	return ""
}

// binding returns an object as a binding, without subjects if it is none.
func (d *Desired) binding() (b rbacv1.ClusterRoleBinding) {
	if d.Ref.Kind == "ClusterRoleBinding" {
		_ = runtime.DefaultUnstructuredConverter.FromUnstructured(d.Object.Object, &b) // it was one when it was rendered
	}
	return b
}
