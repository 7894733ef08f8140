package component

import (
	"bufio"
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// manifestFiles has one file per component, named after it: its objects with
// their built-in values, in the order in which a status lists them (contract
// statement 49).
//
//go:embed manifests/*.yaml
var manifestFiles embed.FS

// readManifests decodes the objects of every component once. They are shared: copy them before
// changing them.
var readManifests = sync.OnceValues(func() (map[string]objects, error) {
	manifests := map[string]objects{}
	for i := range catalog {
		name := catalog[i].Name
		raw, err := manifestFiles.ReadFile("manifests/" + name + ".yaml")
		if err != nil {
			return nil, err
		}
		if manifests[name], err = decode(raw); err != nil {
			return nil, fmt.Errorf("decoding the manifest of %s: %w", name, err)
		}
	}
	crds, err := volcanoCRDs()
	if err != nil {
		return nil, err
	}
	manifests[Volcano] = slices.Insert(manifests[Volcano], 1, crds...) // after the Namespace
	return manifests, nil
})

// manifestOf returns copies of the objects of a component, with their built-in
// values.
func manifestOf(name string) (objects, error) {
	manifests, err := readManifests()
	if err != nil {
		return nil, err
	}
	var list objects
	for _, o := range manifests[name] {
		list = append(list, o.DeepCopyObject().(object))
	}
	return list, nil
}

// decode returns the objects of a manifest. An unknown field is an error, and so is an unknown
// kind or an object without LabelName.
func decode(raw []byte) (objects, error) {
	scheme := runtime.NewScheme()
	kinds := runtime.NewSchemeBuilder(admissionv1.AddToScheme, apiextensionsv1.AddToScheme, appsv1.AddToScheme,
		batchv1.AddToScheme, corev1.AddToScheme, rbacv1.AddToScheme)
	if err := kinds.AddToScheme(scheme); err != nil {
		return nil, err
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	var list objects
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		decoded, _, err := strict.Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("object %d: %w", len(list)+1, err)
		}
		o, ok := decoded.(object)
		if !ok || o.GetLabels()[LabelName] == "" {
			return nil, fmt.Errorf("object %d is a %T without the label %s", len(list)+1, decoded, LabelName)
		}
		list = append(list, o)
	}
}
