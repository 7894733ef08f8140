// Package pki creates the keys, certificates and tokens of a short-lived cluster on
// one machine.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// validity of certificates is longer than the life of any test cluster.
const validity = 365 * 24 * time.Hour

// clockSkew is how far in the past certificates become valid.
const clockSkew = time.Hour

// Bundle contains the keys and certificates of the API server, in PEM.
type Bundle struct {
	// CACert is the certificate of the authority that signed ServingCert.
	CACert []byte
	// ServingCert and ServingKey are the API server's.
	ServingCert, ServingKey []byte
	// KubeletClientCert and KubeletClientKey authenticate the API server to kubelets, as
	// a member of system:masters.
	KubeletClientCert, KubeletClientKey []byte
	// ServiceAccountKey signs and verifies ServiceAccount tokens.
	ServiceAccountKey []byte
}

// New creates a bundle for an API server with the given addresses and names.
func New(ips []net.IP, names []string) (Bundle, error) {
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Bundle{}, fmt.Errorf("making the authority's key: %w", err)
	}
	ca := template("testcluster-ca", 1)
	ca.IsCA, ca.BasicConstraintsValid = true, true
	ca.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	if err != nil {
		return Bundle{}, fmt.Errorf("making the authority's certificate: %w", err)
	}
	serving := template("kube-apiserver", 2)
	serving.IPAddresses, serving.DNSNames = ips, names
	serving.KeyUsage = x509.KeyUsageDigitalSignature
	serving.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	servingCert, servingKey, err := sign(serving, ca, caKey)
	if err != nil {
		return Bundle{}, fmt.Errorf("making the serving certificate: %w", err)
	}
	client := template("kube-apiserver-kubelet-client", 3)
	client.Subject.Organization = []string{"system:masters"}
	client.KeyUsage = x509.KeyUsageDigitalSignature
	client.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	clientCert, clientKey, err := sign(client, ca, caKey)
	if err != nil {
		return Bundle{}, fmt.Errorf("making the certificate for kubelets: %w", err)
	}
	_, accountKeyPEM, err := newKey()
	if err != nil {
		return Bundle{}, fmt.Errorf("making the ServiceAccount key: %w", err)
	}
	return Bundle{
		CACert:            certPEM(caDER),
		ServingCert:       servingCert,
		ServingKey:        servingKey,
		KubeletClientCert: clientCert,
		KubeletClientKey:  clientKey,
		ServiceAccountKey: accountKeyPEM,
	}, nil
}

// Token returns a random token.
func Token() (string, error) {
	secret := make([]byte, 24)
	if _, err := rand.Read(secret); err != nil {
		return "", fmt.Errorf("making a token: %w", err)
	}
	return hex.EncodeToString(secret), nil
}

func template(name string, serial int64) *x509.Certificate {
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    now.Add(-clockSkew),
		NotAfter:     now.Add(validity),
	}
}

// sign creates a key and its certificate.
func sign(certificate, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (certificatePEM, keyPEM []byte, err error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate, ca, key.Public(), caKey)
	if err != nil {
		return nil, nil, err
	}
	return certPEM(der), keyPEM, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	return key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func certPEM(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
