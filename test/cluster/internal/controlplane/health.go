package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

const (
	// healthPoll is how often a starting component's health is checked.
	healthPoll = 100 * time.Millisecond
	// healthTimeout is how long a component may take to become healthy.
	healthTimeout = 90 * time.Second
	// requestTimeout is the timeout of one request.
	requestTimeout = 2 * time.Second
	// maxAnswer is how much of a response is read, in bytes.
	maxAnswer = 64 << 10
)

// check checks the health of one component.
type check func(ctx context.Context) error

// etcdCheck checks the name of etcd's member. The name is unique, so the etcd of
// another cluster that has taken the port is not mistaken for ours.
func etcdCheck(p ports, member string) check {
	client := &http.Client{Timeout: requestTimeout, Transport: &http.Transport{}}
	return func(ctx context.Context) error {
		url := "http://" + address(p.etcdClient) + "/v3/cluster/member/list"
		answer, err := ask(ctx, client, http.MethodPost, url, "{}")
		if err != nil {
			return err
		}
		if !strings.Contains(answer, `"`+member+`"`) {
			return errors.New("another etcd answered")
		}
		return nil
	}
}

// apiServerCheck checks the API server; its certificate proves that it is ours.
func apiServerCheck(l Layout, p ports) (check, error) {
	ca, err := os.ReadFile(l.data(caFile))
	if err != nil {
		return nil, fmt.Errorf("reading the authority's certificate: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := tlsClient(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
	return func(ctx context.Context) error {
		_, err := ask(ctx, client, http.MethodGet, p.apiServerURL()+"/readyz", "")
		return err
	}, nil
}

// selfSignedCheck checks a component with a self-signed certificate.
func selfSignedCheck(port int) check {
	// Nothing secret is sent.
	client := tlsClient(&tls.Config{InsecureSkipVerify: true})
	return func(ctx context.Context) error {
		_, err := ask(ctx, client, http.MethodGet, "https://"+address(port)+"/healthz", "")
		return err
	}
}

func plainCheck(port int) check {
	client := &http.Client{Timeout: requestTimeout, Transport: &http.Transport{}}
	return func(ctx context.Context) error {
		_, err := ask(ctx, client, http.MethodGet, "http://"+address(port)+"/healthz", "")
		return err
	}
}

// tlsClient returns a client without a proxy: everything is on this machine.
func tlsClient(config *tls.Config) *http.Client {
	return &http.Client{Timeout: requestTimeout, Transport: &http.Transport{TLSClientConfig: config}}
}

func ask(ctx context.Context, client *http.Client, method, url, body string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("asking %s: %w", url, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("asking %s: %w", url, err)
	}
	// An error closing a body that was read is harmless.
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("asking %s: %w", url, err)
	}
	if response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("asking %s: %s", url, response.Status)
	}
	return string(answer), nil
}
