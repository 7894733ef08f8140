package hostile

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// Who may edit a gr is root on GCU nodes, within the bounds that an administrator sets.
func TestEditsOfAGcuResourceStayWithinTheBounds(t *testing.T) {
	s := cluster(t)
	admin, manager := s.Client(t, apiserver.Admin), s.Client(t, apiserver.Operator)
	ctx := t.Context()
	before := boundedGR("before", `{driver: {repository: evil.example/gcu}}`)
	check(t, admin.Create(ctx, before))
	t.Cleanup(func() { awaitUnbounded(t, admin) }) // the API server is that of the other tests too
	createAll(t, admin, "config/policy/namespace.yaml")
	createAll(t, admin, "config/policy/bounded_resources.yaml")
	awaitBounds(t, "no gr is accepted without bounds", func() bool {
		err := admin.Create(ctx, boundedGR("x", `{}`), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "no params found")
	})
	createAll(t, admin, "examples/bounded-resources/bounds.yaml")
	awaitBounds(t, "a gr is accepted with bounds", func() bool {
		return admin.Create(ctx, boundedGR("x", `{}`), client.DryRunAll) == nil
	})

	for _, tc := range []struct{ name, spec, refused string }{
		{"another registry", `{driver: {repository: evil.example/gcu}}`, "image evil.example/gcu/ is not allowed, only those from artifact.enflame.cn/enflame_docker_images/enflame, artifact"},
		{"a repository whose name begins alike", `{gfd: {repository: artifact.enflame.cn/galaxy_docker_hub/gcu-evil}}`, "gcu-evil/ is not allowed"},
		{"a way out of the repository", `{gfd: {image: a/../../evil}}`, "is not allowed"},
		{"another registry of a part", `{nightingale: {redis-deploy: {repository: evil.example}}}`, "image evil.example/ is not allowed"},
		{"another registry of a container", `{nfd: {worker: {repository: evil.example, image: nfd}}}`, "image evil.example/nfd is not allowed"},
		{"a Secret in the environment", `{toolkit: {env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}}`, "env of toolkit must not have a secretKeyRef"},
		{"a Secret in the environment of a part", `{volcano: {admission: {env: [{name: A, valueFrom: {secretKeyRef: {name: s, key: k}}}]}}}`, "env of volcano.admission"},
		{"a library for an allowed image", `{driver: {env: [{name: LD_PRELOAD, value: /host/var/lib/kubelet/pods/uid/volumes/x.so}]}}`, "env of driver must not have LD_PRELOAD, which can make the image run other code"},
		{"other programs for a part", `{nightingale: {redis-deploy: {env: [{name: A, value: b}, {name: PATH, value: /tmp}]}}}`, "env of nightingale.redis-deploy must not have PATH"},
		{"a script for the shell", `{toolkit: {env: [{name: BASH_ENV, value: /host/tmp/x}]}}`, "env of toolkit must not have BASH_ENV"},
		{"modules for an interpreter", `{gfd: {env: [{name: PYTHONPATH, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]}}`, "env of gfd must not have PYTHONPATH"},
		{"options of an interpreter", `{nfd: {master: {env: [{name: NODE_OPTIONS, value: --require=/tmp/x}]}}}`, "env of nfd.master must not have NODE_OPTIONS"},
		{"another path", `{nightingale: {mysql-pv: {name: v, hostpath: /etc}}}`, "hostpath /etc of nightingale.mysql-pv is not allowed, only directories in /var/lib/topscloud"},
		{"a path whose name begins alike", `{nightingale: {mysql-pv: {name: v, hostpath: /var/lib/topscloud-evil}}}`, "is not allowed"},
		{"a way out of the path", `{nightingale: {mysql-pv: {name: v, hostpath: /var/lib/topscloud/../../../etc}}}`, "is not allowed"},
		{"other nodes", `{driver: {nodeSelector: {kubernetes.io/os: linux}}}`, "nodeSelector of driver must have one of enflame.com/gcu.present=true"},
		{"other nodes for nfd", `{nfd: {nodeSelector: {kubernetes.io/os: linux}}}`, "nodeSelector of nfd must have one of"},
		{"what is allowed", `{imagePullSecrets: [{name: s}], nfd: {}, driver: {repository: artifact.enflame.cn/galaxy_docker_hub/gcu, image: gcu-driver, env: [{name: A, value: b}, {name: OLD_PATH, value: b}, {name: GODEBUG, value: b}]}, gfd: {nodeSelector: {enflame.com/gcu.present: "true", pool: a}},
			nightingale: {mysql-pv: {name: v, hostpath: /var/lib/topscloud/mysql}, mysql-deploy: {image: mysql}}, volcano: {}}`, ""},
		{"what is not deployed", `{driver: {notDeploy: true, repository: evil.example/gcu}}`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := admin.Create(ctx, boundedGR("x", tc.spec), client.DryRunAll)
			if tc.refused == "" && err != nil || tc.refused != "" && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), tc.refused)) {
				t.Errorf("%v, want %q", err, tc.refused)
			}
		})
	}
	t.Run("the operator goes back to no spec out of bounds", func(t *testing.T) {
		within := boundedGR("within", `{driver: {}}`)
		check(t, admin.Create(ctx, within))
		if err := merge(ctx, manager, within, `{"spec":{"driver":{"repository":"evil.example"}}}`); !apierrors.IsForbidden(err) {
			t.Errorf("a rollback: %v", err)
		}
	})
	t.Run("a gr of before is operated and deleted", func(t *testing.T) {
		check(t, merge(ctx, admin, before, `{"metadata":{"annotations":{"topsops.enflame.com/pause":"true"},"finalizers":["topsops.enflame.com/v1"]}}`))
		check(t, manager.Status().Patch(ctx, before.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`))))
		if err := merge(ctx, admin, before, `{"spec":{"gfd":{}}}`); !apierrors.IsForbidden(err) {
			t.Errorf("its spec is changed: %v", err)
		}
		check(t, admin.Delete(ctx, before))
		check(t, merge(ctx, admin, before, `{"metadata":{"finalizers":null}}`))
		if err := admin.Get(ctx, client.ObjectKeyFromObject(before), before); !apierrors.IsNotFound(err) {
			t.Errorf("it is still there: %v", err)
		}
	})
	t.Run("a misspelled bound refuses everything", func(t *testing.T) {
		bounds := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "gcu-policy", Name: "gcu-resource-bounds"}}
		check(t, merge(ctx, admin, bounds, `{"data":{"repositries":"a"}}`))
		awaitBounds(t, "refused", func() bool {
			err := admin.Create(ctx, boundedGR("x", `{}`), client.DryRunAll)
			return err != nil && strings.Contains(err.Error(), "has a key that is none of repositories")
		})
	})
}

func boundedGR(name, spec string) *topsv1.GcuResource {
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := yaml.UnmarshalStrict([]byte(spec), &gr.Spec); err != nil {
		panic(err)
	}
	return gr
}

// awaitBounds waits until the API server knows new bounds.
func awaitBounds(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) { return holds(), nil }); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// awaitUnbounded waits until the API server has forgotten the bounds.
func awaitUnbounded(t *testing.T, admin client.Client) {
	t.Helper()
	check(t, wait.PollUntilContextTimeout(context.Background(), 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		return admin.Create(ctx, boundedGR("x", `{}`), client.DryRunAll) == nil, nil
	}))
}

// createAll creates the objects of a file of the project, and deletes them at the end of the test.
func createAll(t *testing.T, admin client.Client, path string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", path))
	check(t, err)
	documents := kubeyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := documents.Decode(o); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		check(t, admin.Create(t.Context(), o))
		t.Cleanup(func() { check(t, admin.Delete(context.Background(), o)) })
	}
}
