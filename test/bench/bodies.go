package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/topsops/gcu-operator/test/freeport"
	"github.com/topsops/gcu-operator/test/harness"
)

const (
	// bodyClients send GETs with a body of bodySize, a byte every slowByte: one each in every bodyEvery. The
	// manager answers without the body, and hangs up.
	bodyClients, bodySize = 1200, 1 << 20
	bodyEvery             = 10 * time.Second
	// bodyRate is how often somebody else calls per second, for bodyTime. Each call has a connection of its own.
	bodyRate, bodyTime = 10, 30 * time.Second
	// maxBodyWait is the target for each call.
	maxBodyWait = time.Second
	// bodyNodes is the size of the cluster, which does not matter.
	bodyNodes = 10
)

// slowBodies is what calls of the REST API take while a viewer sends slow requests.
type slowBodies struct {
	calls served
	// sent is how many slow requests were sent.
	sent int
	used usage
}

// measureBodies measures a viewer's calls of the REST API, over TLS and with tokens, while another viewer sends
// slow GETs with bodies.
func measureBodies(ctx context.Context, project harness.Project, _ options, r *report, progress io.Writer) (err error) {
	c := raceNamed("1000")
	c.nodes = bodyNodes
	b, err := startRaceCluster(ctx, project, c, progress)
	defer func() { err = errors.Join(err, b.stop()) }()
	if err != nil {
		return err
	}
	address, err := b.serveWithTokens(ctx)
	if err != nil {
		return err
	}
	roots, err := b.publishedCA(ctx)
	if err != nil {
		return err
	}
	var tokens [2]string
	for i, name := range []string{"slow", "patient"} {
		if tokens[i], err = b.viewer(ctx, name); err != nil {
			return err
		}
	}
	pool := startBodyPool(ctx, address, roots, tokens[0])
	b.say("%d slow requests in every %s; %d other calls per second for %s", bodyClients, bodyEvery, bodyRate, bodyTime)
	client := &http.Client{Timeout: apiTimeout, Transport: withToken{&http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots}}, tokens[1]}}
	s := &slowBodies{calls: sendAt(ctx, client, http.MethodGet, "https://"+address+"/gum/v1/gr", "", bodyRate, bodyTime)}
	s.calls.sum()
	s.sent = pool.stop()
	if s.used, err = b.gauge.read(ctx); err != nil {
		return fmt.Errorf("reading the manager's usage after the slow requests: %w", err)
	}
	r.results = append(r.results, s)
	return ctx.Err()
}

// serveWithTokens replaces its manager with one that serves the REST API as shipped, and returns its address.
func (b *raceCluster) serveWithTokens(ctx context.Context) (string, error) {
	address, err := freeport.Address()
	if err != nil {
		return "", fmt.Errorf("finding a port: %w", err)
	}
	if err := b.stopManager(); err != nil {
		return "", err
	}
	return address, b.startManager(ctx, "--upgrade-api-bind-address", address, "--upgrade-api-log-dir=")
}

// publishedCA returns the CA that the manager publishes.
func (b *raceCluster) publishedCA(ctx context.Context) (*x509.CertPool, error) {
	text, err := b.cluster.Kubectl(ctx, "-n", leaseNamespace, "get", "configmap", "gcu-operator-ca", `-o=jsonpath={.data.ca\.crt}`)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(text)) {
		return nil, fmt.Errorf("the manager publishes no CA: %s", text)
	}
	return roots, nil
}

// viewer returns the token of a new account with the ClusterRole gcu-view.
func (b *raceCluster) viewer(ctx context.Context, name string) (string, error) {
	for _, args := range [][]string{
		{"-n", "default", "create", "serviceaccount", name},
		{"create", "clusterrolebinding", name, "--clusterrole=gcu-view", "--serviceaccount=default:" + name},
	} {
		if _, err := b.cluster.Kubectl(ctx, args...); err != nil {
			return "", err
		}
	}
	token, err := b.cluster.Kubectl(ctx, "-n", "default", "create", "token", name)
	return strings.TrimSpace(token), err
}

// withToken sends requests with a token.
type withToken struct {
	http.RoundTripper
	token string
}

func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.token)
	return w.RoundTripper.RoundTrip(r)
}

// bodyPool are clients with slow bodies.
type bodyPool struct {
	cancel context.CancelFunc
	all    sync.WaitGroup
	sent   atomic.Int64
}

// startBodyPool starts clients that send requests whose bodies do not end.
func startBodyPool(ctx context.Context, address string, roots *x509.CertPool, token string) *bodyPool {
	p := &bodyPool{}
	ctx, p.cancel = context.WithCancel(ctx)
	for i := range bodyClients {
		p.all.Go(func() {
			next := time.Now().Add(bodyEvery * time.Duration(i) / bodyClients)
			for pause(ctx, time.Until(next)) == nil {
				next = next.Add(bodyEvery)
				p.one(ctx, address, roots, token)
			}
		})
	}
	return p
}

// one sends one request until it is disconnected.
func (p *bodyPool) one(ctx context.Context, address string, roots *x509.CertPool, token string) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{RootCAs: roots}}
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer connection.Close()
	head := fmt.Sprintf("GET /gum/v1/gr HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n", address, token, bodySize)
	for text := head; ; text = " " {
		if _, err := io.WriteString(connection, text); err != nil {
			return
		}
		if text == head {
			p.sent.Add(1)
		}
		if pause(ctx, slowByte) != nil {
			return
		}
	}
}

// stop ends the clients and returns how many requests they sent.
func (p *bodyPool) stop() int {
	p.cancel()
	p.all.Wait()
	return int(p.sent.Load())
}

// verdicts returns the verdict of the case; nil if nothing was answered.
func (s *slowBodies) verdicts() []verdict {
	if len(s.calls.took) == 0 {
		return nil
	}
	worst := s.calls.took[len(s.calls.took)-1]
	return []verdict{{fmt.Sprintf("bodies: with %d slow GETs of a viewer with bodies of a megabyte in every %s, each call of another takes under %s", bodyClients, bodyEvery, maxBodyWait),
		fmt.Sprintf("%.0f ms at worst, median %.1f ms, p99 %.1f ms; %d of %d failed (%s); %d slow requests; manager %s at its peak, %.1f s of CPU", milliseconds(worst),
			milliseconds(s.calls.median), milliseconds(s.calls.p99), s.calls.failed, s.calls.sent, cmp.Or(s.calls.firstFailure, "none"), s.sent, megabytes(s.used.peak), s.used.cpu.Seconds()),
		s.calls.failed == 0 && worst < maxBodyWait && s.sent >= bodyClients*int(bodyTime/bodyEvery)}}
}
