package hostile

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/keyutil"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// nodeNameClaim is the user info key for the node that a token is bound to.
const nodeNameClaim = "authentication.kubernetes.io/node-name"

// agentUser is the user name of all node agents.
const agentUser = "system:serviceaccount:" + namespace + ":" + agentAccount

const (
	namespace      = apiserver.Namespace
	agentAccount   = "gcu-node-agent"
	managerAccount = "gcu-operator"
)

// plane is the API server of all tests, with configurations instead of clients.
type plane struct {
	*apiserver.Server
	config *rest.Config
	admin  client.Client
}

// sharedPlane returns the control plane of all tests.
func sharedPlane(t *testing.T) *plane {
	t.Helper()
	s := cluster(t)
	return &plane{Server: s, config: s.As(apiserver.Admin), admin: s.Client(t, apiserver.Admin)}
}

// as returns a client for a configuration.
func (p *plane) as(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: p.Scheme, Mapper: p.admin.RESTMapper()})
	check(t, err)
	return c
}

// addNode creates a Node.
func (p *plane) addNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	check(t, p.admin.Create(t.Context(), node))
	return node
}

// ownedBy returns the NodeUpgrade of a node as the agent creates it; the UID of its
// owner does not matter here.
func ownedBy(node string) *topsv1.NodeUpgrade {
	return &topsv1.NodeUpgrade{ObjectMeta: metav1.ObjectMeta{Name: node, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "Node", Name: node, UID: "uid"}}}}
}

// addNodeUpgrade creates the NodeUpgrade of a node.
func (p *plane) addNodeUpgrade(t *testing.T, node *corev1.Node) *topsv1.NodeUpgrade {
	t.Helper()
	n := ownedBy(node.Name)
	n.OwnerReferences[0].UID = node.UID
	check(t, p.admin.Create(t.Context(), n))
	return n
}

// withToken returns a configuration with a token.
func (p *plane) withToken(token string) *rest.Config {
	config := rest.AnonymousClientConfig(p.config)
	config.BearerToken = token
	return config
}

// account returns a ServiceAccount with a token bound to an object, or to none if bound
// is nil.
func (p *plane) account(t *testing.T, name string, bound *authenticationv1.BoundObjectReference) *rest.Config {
	t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}
	of := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	check(t, p.admin.SubResource("token").Create(t.Context(), of, request))
	return p.withToken(request.Status.Token)
}

// agentInPod returns the agent with the token that a kubelet requests for its pod.
func (p *plane) agentInPod(t *testing.T, node *corev1.Node) *rest.Config {
	t.Helper()
	return p.inPod(t, agentAccount, node)
}

// inPod returns a ServiceAccount with the token that a kubelet requests for a pod of it.
func (p *plane) inPod(t *testing.T, account string, node *corev1.Node) *rest.Config {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: account + "-" + node.Name},
		Spec: corev1.PodSpec{NodeName: node.Name, ServiceAccountName: account, Containers: []corev1.Container{{Name: "c", Image: "x"}}}}
	check(t, p.admin.Create(t.Context(), pod))
	return p.account(t, account, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID})
}

// agentOfNode returns the agent with a token bound to its Node, like test/harness for
// agents outside pods.
func (p *plane) agentOfNode(t *testing.T, node *corev1.Node) *rest.Config {
	t.Helper()
	since136(t, p.Server, "a token bound to a Node") // it needs 1.31: the next earlier version that is tested is 1.30
	return p.account(t, agentAccount, &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID})
}

// agentWithSecret returns the agent with a legacy token in a Secret, as the token
// controller, which does not run here, would create it.
func (p *plane) agentWithSecret(t *testing.T, name string) *rest.Config {
	t.Helper()
	account := &corev1.ServiceAccount{}
	check(t, p.admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: agentAccount}, account))
	const claim = "kubernetes.io/serviceaccount/"
	token := p.sign(t, map[string]string{
		"iss": "kubernetes/serviceaccount", "sub": agentUser, claim + "namespace": namespace, claim + "secret.name": name,
		claim + "service-account.name": account.Name, claim + "service-account.uid": string(account.UID),
	})
	check(t, p.admin.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account.Name}},
		Type:       corev1.SecretTypeServiceAccountToken, Data: map[string][]byte{corev1.ServiceAccountTokenKey: []byte(token)},
	}))
	return p.withToken(token)
}

// sign creates a JSON Web Token with the API server's key.
func (p *plane) sign(t *testing.T, claims map[string]string) string {
	t.Helper()
	pem, err := os.ReadFile(filepath.Join(p.ControlPlane.GetAPIServer().CertDir, "sa-signer.key"))
	check(t, err)
	key, err := keyutil.ParsePrivateKeyPEM(pem)
	check(t, err)
	payload, err := json.Marshal(claims)
	check(t, err)
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + encode(payload)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key.(*ecdsa.PrivateKey), digest[:])
	check(t, err)
	return signed + "." + encode(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// powerful returns the agent of a node with all rights that a role can grant.
func (p *plane) powerful(node string) *rest.Config {
	config := rest.CopyConfig(p.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: agentUser, Groups: []string{"system:masters"}, Extra: map[string][]string{nodeNameClaim: {node}}}
	return config
}
