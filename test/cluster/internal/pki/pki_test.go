package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"
)

func TestServingCertificateIsTrustedForItsAddressesOnly(t *testing.T) {
	bundle, err := New([]net.IP{net.ParseIP("127.0.0.1")}, []string{"kubernetes"})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(bundle.ServingCert, bundle.ServingKey)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle.CACert)
	for name, trusted := range map[string]bool{"127.0.0.1": true, "kubernetes": true, "127.0.0.2": false, "example": false} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: name, Roots: roots})
		if (err == nil) != trusted {
			t.Errorf("%s: got %v, want trusted %v", name, err, trusted)
		}
	}
}

func TestTokensDiffer(t *testing.T) {
	a, errA := Token()
	b, errB := Token()
	if errA != nil || errB != nil || a == b || len(a) < 32 {
		t.Errorf("got tokens %q and %q (%v, %v)", a, b, errA, errB)
	}
}
