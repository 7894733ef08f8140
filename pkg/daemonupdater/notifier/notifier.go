// Package notifier delivers the notifications of rollouts to a webhook: CloudEvents 1.0 in structured mode, signed by the
// Standard Webhooks specification (HMAC-SHA256 of ID, time and body). It runs beside the passes, which only hand over the
// pending notifications of the stored record and ask which were delivered: a slow endpoint, or one that is down, delays
// no pass.
package notifier

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/notification"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/outcome"
)

// attemptTimeout bounds one attempt.
const attemptTimeout = 10 * time.Second

// Options of a Notifier.
type Options struct {
	// URL of the webhook, http or https.
	URL string
	// SecretFile has the secret of the signatures: whsec_ and 24 to 64 bytes in base64. Each further line is another valid
	// secret, for a rotation. The file is read at each attempt.
	SecretFile string
	// CAFile has CAs in PEM to trust for the endpoint, besides those of the system; "" for none. It is read at each attempt.
	CAFile     string
	Clock      clock.Clock
	Registerer prometheus.Registerer
	// Log for failures: the context of a manager's runnable has no logger.
	Log logr.Logger
}

// Notifier delivers notifications. It is safe for concurrent use.
type Notifier struct {
	options Options
	// client trusts the CAs in roots, which is CAFile as it was read last. Only Start uses them.
	client   *http.Client
	roots    []byte
	outbox   *outbox
	attempts *prometheus.CounterVec
	woken    chan observed.Group
}

// New checks the URL and registers the metrics. It panics, like client_golang, if they are already registered. A secret or CAs
// that cannot be used are no error, because they may be corrected while the manager runs: it logs them, and attempts fail.
func New(o Options) (*Notifier, error) {
	if err := checkURL(o.URL); err != nil {
		return nil, err
	}
	n := &Notifier{options: o, outbox: newOutbox(), woken: make(chan observed.Group, 100), client: clientWith(nil)}
	_, err := signers(o.SecretFile)
	if err = errors.Join(err, n.trust()); err != nil {
		o.Log.Error(err, "No notification is delivered until this is corrected")
	}
	n.attempts = register(o.Registerer, n.outbox)
	return n, nil
}

// clientWith returns a client that trusts roots, nil for those of the system.
func clientWith(roots *x509.CertPool) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	return &http.Client{
		Transport: transport, Timeout: attemptTimeout,
		// A redirect is not followed: the endpoint is the one that was configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// trust makes a client with the CAs in the file if they have changed since it was read.
func (n *Notifier) trust() error {
	if n.options.CAFile == "" {
		return nil
	}
	text, err := os.ReadFile(n.options.CAFile)
	if err != nil {
		return fmt.Errorf("reading the CAs of the webhook: %w", err)
	}
	if bytes.Equal(text, n.roots) {
		return nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(text) {
		return fmt.Errorf("there is no certificate in %s", n.options.CAFile)
	}
	n.client.CloseIdleConnections()
	n.client, n.roots = clientWith(roots), text
	return nil
}

// RegisterMetrics registers the metrics without a Notifier, to generate their reference.
func RegisterMetrics(registerer prometheus.Registerer) { register(registerer, newOutbox()) }

func register(registerer prometheus.Registerer, o *outbox) *prometheus.CounterVec {
	attempts := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gcu_notifications_total",
		Help: "Attempts to deliver a notification to the webhook, by result: success or failure."}, []string{"result"})
	for _, result := range []outcome.Result{outcome.Success, outcome.Failure} { // rate() needs the zero before the first
		attempts.WithLabelValues(string(result))
	}
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "gcu_notifications_pending",
		Help: "Notifications that are not delivered to the webhook yet."}, func() float64 { return float64(o.waiting()) })
	registerer.MustRegister(attempts, waiting)
	return attempts
}

// checkURL returns an error if a URL cannot be that of a webhook.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return errors.New("the URL of the webhook cannot be parsed") // it may have a secret
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return errors.New("the URL of the webhook must begin with http:// or https:// and a host")
	case u.User != nil:
		return errors.New("the URL of the webhook must have no user or password: requests are signed")
	}
	return nil
}

// signers returns one signer per secret in a file.
func signers(file string) ([]*standardwebhooks.Webhook, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the secret of the webhook: %w", err)
	}
	var list []*standardwebhooks.Webhook
	for _, line := range strings.Fields(string(text)) {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(line, "whsec_"))
		if err != nil || len(key) < 24 || len(key) > 64 {
			return nil, fmt.Errorf("the secret of the webhook in %s must be whsec_ followed by 24 to 64 bytes in base64", file)
		}
		signer, err := standardwebhooks.NewWebhookRaw(key)
		if err != nil {
			return nil, fmt.Errorf("using the secret of the webhook: %w", err)
		}
		list = append(list, signer)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the file with the secret of the webhook, %s, is empty", file)
	}
	return list, nil
}

// Offer replaces the pending notifications of a group, as stored; none if the group is gone.
func (n *Notifier) Offer(g observed.Group, pending []notification.Message) {
	n.outbox.offer(g, pending)
}

// Delivered reports whether this process delivered a notification.
func (n *Notifier) Delivered(id string) bool { return n.outbox.isDelivered(id) }

// Woken receives a group after a delivery, so that its record is written again.
func (n *Notifier) Woken() <-chan observed.Group { return n.woken }

// NeedLeaderElection implements manager.LeaderElectionRunnable: only the leader sends.
func (n *Notifier) NeedLeaderElection() bool { return true }

// Start delivers until ctx is done.
func (n *Notifier) Start(ctx context.Context) error {
	log := n.options.Log.WithName("notifier")
	for {
		due, at := n.outbox.next(n.options.Clock.Now())
		if due != nil {
			n.attempt(ctx, log, due)
			if ctx.Err() != nil {
				return nil
			}
			continue
		}
		var later <-chan time.Time
		if !at.IsZero() {
			later = n.options.Clock.After(at.Sub(n.options.Clock.Now()))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-n.outbox.wake:
		case <-later:
		}
	}
}

// attempt tries to deliver a notification once.
func (n *Notifier) attempt(ctx context.Context, log logr.Logger, l *delivery) {
	err := n.send(ctx, l)
	if ctx.Err() != nil {
		return // the next leader sends it again
	}
	n.outbox.recordAttempt(l, err == nil, n.options.Clock.Now())
	if err != nil {
		n.attempts.WithLabelValues(string(outcome.Failure)).Inc()
		if l.delay == minDelay { // the first of a series
			log.Info("Delivering a notification failed, retrying", "id", l.ID, "rollout", l.group.String(), "cause", err.Error())
		}
		return
	}
	n.attempts.WithLabelValues(string(outcome.Success)).Inc()
	log.V(4).Info("Delivered a notification", "id", l.ID, "rollout", l.group.String())
	select {
	case n.woken <- l.group:
	default: // the mark is removed with the next write of the status
	}
}

// send makes one request. A 2xx response accepts the notification.
func (n *Notifier) send(ctx context.Context, l *delivery) error {
	signers, err := signers(n.options.SecretFile)
	if err = errors.Join(err, n.trust()); err != nil {
		return err
	}
	now := n.options.Clock.Now()
	var signatures []string
	for _, s := range signers {
		signature, err := s.Sign(l.ID, now, l.Body)
		if err != nil {
			return fmt.Errorf("signing: %w", err)
		}
		signatures = append(signatures, signature)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.options.URL, bytes.NewReader(l.Body))
	if err != nil {
		return errors.New("making the request failed")
	}
	request.Header.Set("Content-Type", event.ApplicationCloudEventsJSON)
	request.Header.Set("User-Agent", "gcu-operator")
	request.Header.Set(standardwebhooks.HeaderWebhookID, l.ID)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, strings.Join(signatures, " "))
	response, err := n.client.Do(request)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // without the URL, whose path or query may be a secret
		}
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10)) // so that the connection is used again
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("the webhook responded %s", response.Status)
	}
	return nil
}
