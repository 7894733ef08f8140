package servingcert

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	day = 24 * time.Hour
	// How long certificates last, and how long before their end they are renewed.
	authorityLasts, authorityRenewal = 3650 * day, 365 * day
	servingLasts, servingRenewal     = 90 * day, 30 * day
	// skew is how far clocks of clients may be behind.
	skew = time.Hour
	// settles is how long certificates of the CA before are served when there is another: a pod sees the new ConfigMap a minute later.
	// overlap is how long the CA before is published too. Each replica counts from when it saw the other: clocks may differ.
	settles, overlap = 3 * time.Minute, 10 * time.Minute
	// maxFormer bounds how many of the CAs before are published.
	maxFormer = 5
)

// Keys of the Secret; the ConfigMap has the first.
const (
	certificateKey = "ca.crt"
	privateKey     = "ca.key"
	formerKey      = "former.crt"
)

// authority is a CA.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	// former are the CAs that it replaced because the Secret was deleted, as far as known, the newest first; none once overlap is over.
	former []*x509.Certificate
}

func newAuthority(now time.Time) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of the CA: %w", err)
	}
	name := pkix.Name{CommonName: fmt.Sprintf("gcu-operator-ca@%d", now.Unix())}
	return authorityOf(key, name, now)
}

// authorityOf returns a self-signed CA with a key.
func authorityOf(key *ecdsa.PrivateKey, name pkix.Name, now time.Time) (*authority, error) {
	template := &x509.Certificate{Subject: name, NotBefore: now.Add(-skew), NotAfter: now.Add(authorityLasts),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true}
	certificate, err := sign(template, template, key, key)
	return &authority{certificate: certificate, key: key}, err
}

// renewed returns a CA of the same key and name that lasts longer.
func (a *authority) renewed(now time.Time) (*authority, error) {
	return authorityOf(a.key, a.certificate.Subject, now)
}

// due reports whether a certificate is to be renewed.
func due(c *x509.Certificate, now time.Time, renewal time.Duration) bool {
	return !now.Add(renewal).Before(c.NotAfter)
}

// readAuthority returns the CA in the data of a Secret.
func readAuthority(data map[string][]byte) (*authority, error) {
	certificates, err := cert.ParseCertsPEM(data[certificateKey])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", certificateKey, err)
	}
	parsed, err := keyutil.ParsePrivateKeyPEM(data[privateKey])
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", privateKey, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(certificates[0].PublicKey) || !certificates[0].IsCA {
		return nil, fmt.Errorf("%s and %s are not a CA of the operator", certificateKey, privateKey)
	}
	ca := &authority{certificate: certificates[0], key: key}
	ca.former, _ = cert.ParseCertsPEM(data[formerKey]) // none, mostly
	return ca, nil
}

// data returns what a Secret has of the CA.
func (a *authority) data() (map[string][]byte, error) {
	key, err := keyutil.MarshalPrivateKeyToPEM(a.key)
	if err != nil {
		return nil, fmt.Errorf("encoding the key of the CA: %w", err)
	}
	public, err := cert.EncodeCertificates(a.certificate)
	data := map[string][]byte{certificateKey: public, privateKey: key}
	if err == nil && len(a.former) > 0 {
		data[formerKey], err = cert.EncodeCertificates(a.former...)
	}
	return data, err
}

// public returns what clients need of the CA, and of those before.
func (a *authority) public() ([]byte, error) {
	return cert.EncodeCertificates(append([]*x509.Certificate{a.certificate}, a.former...)...)
}

// issue returns a serving certificate for names and IP addresses.
func (a *authority) issue(names []string, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of the serving certificate: %w", err)
	}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "gcu-operator"}, NotBefore: now.Add(-skew), NotAfter: now.Add(servingLasts),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if name != "" {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	leaf, err := sign(template, a.certificate, key, a.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}, nil
}

// serves reports whether to go on serving with a certificate, when the CA is known for a time: a CA of the same key and name has signed
// it, or one before, which not all clients have replaced yet.
func (a *authority) serves(c *tls.Certificate, now time.Time, known time.Duration) bool {
	if c == nil || due(c.Leaf, now, servingRenewal) {
		return false
	}
	return signed(a.certificate, c) || known < settles && slices.ContainsFunc(a.former, func(ca *x509.Certificate) bool { return signed(ca, c) })
}

// signed reports whether a CA of the same key and name has signed a certificate.
func signed(ca *x509.Certificate, c *tls.Certificate) bool {
	return bytes.Equal(c.Leaf.RawIssuer, ca.RawSubject) && c.Leaf.CheckSignatureFrom(ca) == nil
}

func sign(template, parent *x509.Certificate, of, by *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("making a serial number: %w", err)
	}
	template.SerialNumber = serial
	raw, err := x509.CreateCertificate(rand.Reader, template, parent, of.Public(), by)
	if err != nil {
		return nil, fmt.Errorf("signing %s: %w", template.Subject, err)
	}
	return x509.ParseCertificate(raw)
}
