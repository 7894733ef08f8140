package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/topsops/gcu-operator/pkg/ota/response"
)

// client calls the endpoint of the agent on this node.
type client struct {
	http  *http.Client
	base  string
	token string
}

// defaultSocket is where the agent of a node listens.
const defaultSocket = "/run/gcu-node-agent/ota.sock"

// connection holds the flags to reach the agent.
type connection struct {
	socket    string
	address   string
	tokenFile string
	caFile    string
}

// connect returns a client, without connecting.
func (n connection) connect() (*client, error) {
	transport := &http.Transport{}
	c := &client{http: &http.Client{Transport: transport}, base: "http://localhost"}
	if n.address == "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", n.socket)
		}
		return c, nil
	}
	address, err := url.Parse(n.address)
	if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" {
		return nil, fmt.Errorf("--address %q is no URL of http or https, such as http://127.0.0.1:10267", n.address)
	}
	c.base = strings.TrimSuffix(address.String(), "/")
	if n.tokenFile != "" {
		token, err := os.ReadFile(n.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading --token-file: %w", err)
		}
		c.token = strings.TrimSpace(string(token))
		if address.Scheme == "http" {
			transport.DialContext = (&verifier{base: c.base, token: c.token}).dial
		}
	}
	if n.caFile != "" {
		pem, err := os.ReadFile(n.caFile)
		if err != nil {
			return nil, fmt.Errorf("reading --ca-file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--ca-file %s holds no certificate", n.caFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return c, nil
}

// refused is the error response of an agent.
type refused struct{ response.Problem }

func (r *refused) Error() string { return fmt.Sprintf("%s (%s)", r.Detail, r.Title) }

// unreachable means that there was no response.
type unreachable struct{ cause error }

func (u *unreachable) Error() string { return "the node agent does not respond: " + u.cause.Error() }
func (u *unreachable) Unwrap() error { return u.cause }

// do sends a request, with a body unless it is nil, and decodes the response. The error is an
// *unreachable if there was no response, and a *refused for an error response.
func (c *client) do(ctx context.Context, method, path, key string, body, into any) error {
	var content io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encoding the request: %w", err)
		}
		content = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, c.base+path, content)
	if err != nil {
		return err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	if c.token != "" {
		request.Header.Set("Authorization", "Bearer "+c.token)
	}
	resp, err := c.http.Do(request)
	if other, found := errors.AsType[*unverifiedAgent](err); found {
		return other
	}
	if err != nil {
		return &unreachable{err}
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return &unreachable{err}
	}
	if resp.StatusCode >= http.StatusBadRequest {
		r := &refused{response.Problem{Title: resp.Status, Status: resp.StatusCode, Detail: strings.TrimSpace(string(data))}}
		_ = json.Unmarshal(data, &r.Problem) // a body that is no problem is shown as it is
		return r
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("decoding the response of the node agent: %w", err)
	}
	return nil
}

// ping asks for nothing, and returns an error unless the agent answers: that of a pod, if podUID is not "". While a pod is replaced
// the former one may still serve the same socket.
func (c *client) ping(ctx context.Context, podUID string) error {
	ctx, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(request)
	if err != nil {
		return &unreachable{err}
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the node agent responded %s", resp.Status)
	}
	if of := resp.Header.Get(response.PodHeader); podUID != "" && of != podUID {
		return fmt.Errorf("the node agent of another pod responds (%q, not %q), so that of this pod waits until it has ended", of, podUID)
	}
	return nil
}

const (
	// pollWait is how long one request waits for a change.
	pollWait = 30 * time.Second
	// retryPause is the pause after a request that failed or did not wait: the agent may be
	// restarting, for example because of a restart of the container runtime.
	retryPause = time.Second
)

// follow calls show with an operation and after each change, until it ends. It retries
// while the agent does not respond, after one call of lost. The error is that of ctx or of
// the request.
func (c *client) follow(ctx context.Context, o response.Operation, show func(response.Operation), lost func(error)) (response.Operation, error) {
	reported := false
	for show(o); !o.State.Final(); {
		var next response.Operation
		err := c.do(ctx, http.MethodGet, "/v1/operations/"+o.ID+"?wait="+pollWait.String(), "", nil, &next)
		if ctx.Err() != nil {
			return o, ctx.Err()
		}
		if _, isUnreachable := errors.AsType[*unreachable](err); isUnreachable {
			if !reported {
				lost(err)
			}
			reported = true
			pause(ctx)
			continue
		}
		if err != nil {
			return o, err
		}
		reported = false
		if reflect.DeepEqual(o, next) {
			pause(ctx) // too many callers wait, so this request did not
			continue
		}
		if o = next; !o.State.Final() {
			show(o)
		}
	}
	show(o)
	return o, nil
}

func pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(retryPause):
	}
}
