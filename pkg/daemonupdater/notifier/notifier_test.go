package notifier

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/daemonupdater/notification"
	"github.com/topsops/gcu-operator/pkg/daemonupdater/observed"
	"github.com/topsops/gcu-operator/pkg/outcome"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var group = observed.Group{Kind: observed.KindGcuResource, Name: "my-gr"}

func message(id string, minute int) notification.Message {
	return notification.Message{ID: id, Time: noon.Add(time.Duration(minute) * time.Minute), Body: []byte("{}")}
}

func secret(key string) string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(key, 32)))
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// hook is a webhook that answers as told, and keeps the ids of the requests whose signature is right.
type hook struct {
	mu     sync.Mutex
	status int
	ids    []string
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	if webhook, err := standardwebhooks.NewWebhook(secret("a")); err != nil || webhook.Verify(body, r.Header) != nil || r.Header.Get("Content-Type") != "application/cloudevents+json" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	h.ids = append(h.ids, r.Header.Get("webhook-id"))
	if h.status == http.StatusFound {
		w.Header().Set("Location", "http://127.0.0.1:1/")
	}
	w.WriteHeader(h.status)
}

func (h *hook) answer(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = status
}

func (h *hook) seen() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ids)
}

// started returns a Notifier that delivers to a hook.
func started(t *testing.T, h *hook, secrets string, lines ...func(string)) *Notifier {
	t.Helper()
	log := funcr.New(func(_, line string) {
		for _, write := range lines {
			write(line)
		}
	}, funcr.Options{})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	n, err := New(Options{URL: server.URL, SecretFile: file(t, secrets), Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = n.Start(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return n
}

func TestAnOfferIsDeliveredOnce(t *testing.T) {
	h := &hook{status: http.StatusAccepted}
	n := started(t, h, secret("b")+"\n"+secret("a")+"\n")
	n.Offer(group, []notification.Message{message("1", 0)})
	if g := <-n.Woken(); g != group || !n.Delivered("1") {
		t.Errorf("%v is woken, delivered: %t", g, n.Delivered("1"))
	}
	n.Offer(group, []notification.Message{message("1", 0), message("2", 1)}) // the mark of the first is not removed yet
	<-n.Woken()
	if got := h.seen(); !slices.Equal(got, []string{"1", "2"}) {
		t.Errorf("requests %v", got)
	}
	if got := testutil.ToFloat64(n.attempts.WithLabelValues(string(outcome.Success))); got != 2 || n.outbox.waiting() != 0 {
		t.Errorf("%v delivered, %d waiting", got, n.outbox.waiting())
	}
}

func TestWhatIsNotAcceptedIsSentAgain(t *testing.T) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusFound, http.StatusGone} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			h := &hook{status: status}
			logged := make(chan string, 1)
			n := started(t, h, secret("a"), func(line string) { logged <- line })
			n.Offer(group, []notification.Message{message("1", 0)})
			if line := <-logged; !strings.Contains(line, "retrying") || !strings.Contains(line, fmt.Sprint(status)) || strings.Contains(line, "127.0.0.1") {
				t.Errorf("the log has %s", line)
			}
			if n.Delivered("1") {
				t.Error("it counts as delivered")
			}
			h.answer(http.StatusOK)
			<-n.Woken()
			if got := h.seen(); !n.Delivered("1") || !slices.Equal(got, []string{"1", "1"}) {
				t.Errorf("requests %v", got)
			}
		})
	}
}

func TestTheOutboxIsBoundByTheRecords(t *testing.T) {
	o := newOutbox()
	o.offer(group, []notification.Message{message("2", 2), message("1", 1)})
	first, _ := o.next(noon)
	if first.ID != "1" {
		t.Errorf("the first is %s, want the oldest", first.ID)
	}
	now := noon
	var delays []time.Duration
	for range 12 {
		o.recordAttempt(first, false, now)
		delays = append(delays, first.due.Sub(now))
		now = first.due
	}
	if delays[0] != minDelay || delays[1] != 2*minDelay || delays[11] != maxDelay {
		t.Errorf("delays %v", delays)
	}
	o.offer(group, []notification.Message{message("1", 1), message("2", 2)})
	if again, _ := o.next(now.Add(-time.Second)); again == nil || again.ID != "2" {
		t.Error("an offer of the same resets its delay, or delays others")
	}
	o.offer(group, []notification.Message{message("3", 3)}) // the record has the others no longer
	if o.waiting() != 1 {
		t.Errorf("%d are waiting", o.waiting())
	}
	o.offer(group, nil)
	if due, at := o.next(now); due != nil || !at.IsZero() || len(o.groups) != 0 {
		t.Error("a group that is gone has something to deliver")
	}
	for i := range 3 * remembered {
		m := message(fmt.Sprint(i), i)
		o.offer(group, []notification.Message{m})
		due, _ := o.next(now)
		o.recordAttempt(due, true, now)
	}
	if len(o.delivered) != remembered || o.isDelivered("0") || !o.isDelivered(fmt.Sprint(3*remembered-1)) {
		t.Errorf("%d ids are remembered", len(o.delivered))
	}
}

func TestWrongURLsAreRefused(t *testing.T) {
	for url, want := range map[string]string{"": "must begin with http", "ftp://a/": "must begin with http", "https://a:b@c/": "no user or password"} {
		_, err := New(Options{URL: url, SecretFile: file(t, secret("a")), Registerer: prometheus.NewRegistry()})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "b@c") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}

// A secret or CAs that are wrong do not stop the manager, which needs them for notifications alone: they may be
// corrected at any time.
func TestFilesThatAreWrongAreReadAgain(t *testing.T) {
	good, h := secret("a"), &hook{status: http.StatusOK}
	server := httptest.NewTLSServer(h)
	t.Cleanup(server.Close)
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for name, tt := range map[string]struct{ secret, ca, want string }{
		"no secret":              {"", ca, "reading the secret"},
		"an empty secret":        {"\n", ca, "is empty"},
		"a short secret":         {"whsec_YWJj", ca, "24 to 64 bytes"},
		"no base64":              {"secret!", ca, "24 to 64 bytes"},
		"CAs that are none":      {good, good, "no certificate"},
		"CAs that are not there": {good, "", "reading the CAs"},
		"other CAs":              {good, string(otherCA(t)), "x509"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			put := func(name, text string) string {
				path := filepath.Join(folder, name)
				if text != "" && os.WriteFile(path, []byte(text), 0o600) != nil {
					t.Fatal("writing a file")
				}
				return path
			}
			var lines []string
			log := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
			n, err := New(Options{URL: server.URL, SecretFile: put("secret", tt.secret), CAFile: put("ca", tt.ca), Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(), Log: log})
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(lines, "\n"); tt.want != "x509" && !strings.Contains(text, tt.want) {
				t.Errorf("it logs %q, want %q", text, tt.want)
			}
			l := &delivery{Message: message("a", 0)}
			if err := n.send(t.Context(), l); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			put("secret", good)
			put("ca", ca)
			if err := n.send(t.Context(), l); err != nil {
				t.Errorf("after the correction: %v", err)
			}
		})
	}
}

// otherCA returns the certificate of another server.
func otherCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw})
}
