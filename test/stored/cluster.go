package stored

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

//go:embed testdata/*.yaml
var testdata embed.FS

// Cluster returns a fake API server with the objects of a file in testdata that has nodes and pods, to be built with
// the indexes of a test, and the time when they were stored.
func Cluster(file string) (*fake.ClientBuilder, time.Time, error) {
	text, err := testdata.ReadFile("testdata/" + file)
	if err != nil {
		return nil, time.Time{}, err
	}
	var list unstructured.UnstructuredList
	if err := yaml.Unmarshal(text, &list); err != nil {
		return nil, time.Time{}, fmt.Errorf("reading %s: %w", file, err)
	}
	at, _, err := unstructured.NestedString(list.Object, "time")
	if err != nil {
		return nil, time.Time{}, err
	}
	stored, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return nil, time.Time{}, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), topsv1.AddToScheme(scheme)); err != nil {
		return nil, time.Time{}, err
	}
	objects := make([]client.Object, len(list.Items))
	for i := range list.Items {
		u := &list.Items[i]
		if u.GetDeletionTimestamp() != nil { // without a finalizer it would be gone
			u.SetFinalizers([]string{"test/terminating"})
		}
		object, err := scheme.New(u.GroupVersionKind())
		if err == nil {
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object)
		}
		if err != nil {
			return nil, time.Time{}, fmt.Errorf("reading %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		var is bool
		if objects[i], is = object.(client.Object); !is {
			return nil, time.Time{}, fmt.Errorf("%T is no object", object)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&topsv1.DaemonRollout{}, &topsv1.NodeUpgrade{}, &topsv1.UpgradePlan{}), stored, nil
}

// Noting returns a client that makes all writes, and before those that are not of a status calls note. content is that of a patch.
func Noting(api client.WithWatch, note func(verb string, object client.Object, content []byte)) client.Client {
	return interceptor.NewClient(api, interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			note("create", object, nil)
			return w.Create(ctx, object, opts...)
		},
		Delete: func(ctx context.Context, w client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			note("delete", object, nil)
			return w.Delete(ctx, object, opts...)
		},
		Patch: func(ctx context.Context, w client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			content, err := patch.Data(object)
			note("patch", object, content)
			if err != nil {
				return err
			}
			return w.Patch(ctx, object, patch, opts...)
		},
	})
}
