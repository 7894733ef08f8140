package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/test/apiserver"
)

func TestMain(m *testing.M) { os.Exit(apiserver.Run(m)) }

// site is an API server with our CRDs and roles, and the plugin.
type site struct {
	client.Client
	t          *testing.T
	config     *rest.Config
	kubeconfig string
}

// newSite returns the API server, one for all tests: each has names of its own. There
// is no operator: the tests play it.
func newSite(t *testing.T) *site {
	t.Helper()
	server := apiserver.Shared(t)
	config := server.As(apiserver.Admin)
	return &site{Client: server.Client(t, apiserver.Admin), t: t, config: config, kubeconfig: kubeconfigOf(t, config)}
}

// kubeconfigOf writes a kubeconfig.
func kubeconfigOf(t *testing.T, config *rest.Config) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u", Namespace: "somewhere-else"}
	c.CurrentContext = "x"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// answer is what the plugin said.
type answer struct {
	code     int
	out, err string
}

// gcu runs the plugin.
func (s *site) gcu(args ...string) answer { return s.gcuWith(s.t.Context(), "", args...) }

func (s *site) gcuWith(ctx context.Context, input string, args ...string) answer {
	var out, errOut bytes.Buffer
	// Behind the first word: the last one is what a shell completes.
	args = slices.Insert(args, 1, "--kubeconfig", s.kubeconfig, "--cache-dir", filepath.Join(filepath.Dir(s.kubeconfig), "cache"))
	code := run(ctx, args, strings.NewReader(input), &out, &errOut)
	return answer{code, out.String(), errOut.String()}
}

// says fails unless the plugin ends with a code and says all of the words.
func (s *site) says(a answer, code int, words ...string) answer {
	s.t.Helper()
	if a.code != code {
		s.t.Fatalf("exit code %d, want %d; it says\n%s%s", a.code, code, a.out, a.err)
	}
	for _, w := range words {
		if !strings.Contains(a.out+a.err, w) {
			s.t.Errorf("it does not say %q:\n%s%s", w, a.out, a.err)
		}
	}
	return a
}

// create makes an object, with its status, that goes with the test.
func (s *site) create(o client.Object) {
	s.t.Helper()
	withStatus := o.DeepCopyObject().(client.Object)
	if err := s.Create(s.t.Context(), o); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := s.Delete(context.Background(), o); client.IgnoreNotFound(err) != nil {
			s.t.Error(err)
		}
	})
	withStatus.SetResourceVersion(o.GetResourceVersion())
	withStatus.SetUID(o.GetUID())
	if err := s.Status().Update(s.t.Context(), withStatus); client.IgnoreNotFound(err) != nil {
		s.t.Fatal(err)
	}
	s.read(o)
}

// read reads an object again.
func (s *site) read(o client.Object) {
	s.t.Helper()
	if err := s.Get(s.t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		s.t.Fatal(err)
	}
}

// eventually calls check until it is true.
func (s *site) eventually(what string, check func() bool) {
	s.t.Helper()
	for end := time.Now().Add(30 * time.Second); !check(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("%s does not happen", what)
		}
	}
}
