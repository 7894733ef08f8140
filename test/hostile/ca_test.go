package hostile

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/servingcert"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// publishedCA returns the CA that the manager publishes, "" if there is none yet.
func publishedCA(t *testing.T, s *apiserver.Server) string {
	t.Helper()
	published := &corev1.ConfigMap{}
	check(t, client.IgnoreNotFound(s.Client(t, apiserver.Admin).Get(t.Context(), client.ObjectKey{Namespace: apiserver.Namespace, Name: servingcert.Name}, published)))
	return published.Data["ca.crt"]
}

// anotherCA returns a certificate that the manager does not have.
func anotherCA(t *testing.T) string {
	t.Helper()
	certificate, _, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	check(t, err)
	return string(certificate)
}

// The manager writes two objects that no GcuResource controls, for its CA: under these names, in its own
// namespace, and it takes neither away. Who may view the cluster sees the CA, not its key.
func TestTheCAIsOneSecretAndOneConfigMap(t *testing.T) {
	s := cluster(t)
	manager := s.Client(t, apiserver.Operator)
	ctx := t.Context()
	elsewhere := metav1.ObjectMeta{Namespace: "default", Name: servingcert.Name}
	ca := &corev1.Secret{ObjectMeta: inOperators(servingcert.Name)}
	published := &corev1.ConfigMap{ObjectMeta: inOperators(servingcert.Name)}
	allowed(t, "keep the CA", func() error { return client.IgnoreAlreadyExists(manager.Create(ctx, ca.DeepCopy())) })
	t.Cleanup(func() { // it has no key
		for _, o := range []client.Object{ca, published} {
			check(t, s.Client(t, apiserver.Admin).Delete(context.Background(), o))
		}
	})
	allowed(t, "read the CA", func() error { return manager.Get(ctx, client.ObjectKeyFromObject(ca), ca) })
	allowed(t, "renew the CA", func() error { return merge(ctx, manager, ca, `{"metadata":{"labels":{"a":"b"}}}`) })
	allowed(t, "publish the CA", func() error { return client.IgnoreAlreadyExists(manager.Create(ctx, published.DeepCopy())) })
	allowed(t, "publish it again", func() error { return merge(ctx, manager, published, `{"metadata":{"labels":{"a":"b"}}}`) })
	viewer := personWith(t, s, "viewer-of-the-ca", "system:aggregate-to-view").Client
	allowed(t, "see what is published", func() error { return viewer.Get(ctx, client.ObjectKeyFromObject(published), &corev1.ConfigMap{}) })
	for what, attempt := range map[string]func() error{
		"the manager stores the Secret elsewhere":    func() error { return manager.Create(ctx, &corev1.Secret{ObjectMeta: elsewhere}) },
		"the manager stores the ConfigMap elsewhere": func() error { return manager.Create(ctx, &corev1.ConfigMap{ObjectMeta: elsewhere}) },
		"the manager deletes the ConfigMap":          func() error { return manager.Delete(ctx, published) },
		"the manager stores a token under the name": func() error {
			token := &corev1.Secret{ObjectMeta: inOperators(servingcert.Name), Type: corev1.SecretTypeServiceAccountToken}
			token.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
			return manager.Create(ctx, token, client.DryRunAll)
		},
		"who may view reads the key": func() error { return viewer.Get(ctx, client.ObjectKeyFromObject(ca), &corev1.Secret{}) },
	} {
		if err := attempt(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
