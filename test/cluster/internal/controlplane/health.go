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
	// healthPoll is how often a starting part is asked for its health.
	healthPoll = 100 * time.Millisecond
	// healthTimeout is how long one part may take to become healthy.
	healthTimeout = 90 * time.Second
	// requestTimeout is how long one question may take.
	requestTimeout = 2 * time.Second
	// maxAnswer is how much of an answer is read, in bytes.
	maxAnswer = 64 << 10
)

// check asks one part whether it works.
type check func(ctx context.Context) error

// etcdCheck asks etcd for the name of its member. The name is ours alone: should
// the etcd of another cluster have taken the port, its answer does not count.
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

// apiServerCheck asks the API server, and takes an answer only from ours.
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

// selfSignedCheck asks a part whose certificate is of its own making.
func selfSignedCheck(port int) check {
	//nolint:gosec // Nothing secret is sent, and nothing signs these certificates.
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
	// Nothing is lost when closing a body that was read fails.
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
