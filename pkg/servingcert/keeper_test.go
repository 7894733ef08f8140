package servingcert

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const namespace = "kube-system"

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// replica is a Keeper with its own clock and log.
type replica struct {
	*Keeper
	clock *testingclock.FakeClock
	log   *bytes.Buffer
}

func newReplica(c client.Client) replica {
	r := replica{clock: testingclock.NewFakeClock(epoch), log: &bytes.Buffer{}}
	r.Keeper = &Keeper{Client: c, Namespace: namespace, Names: []string{"gum.svc", "", "10.1.2.3", "gum.svc", "fd00::1"}, Clock: r.clock,
		Log: funcr.New(func(_, text string) { r.log.WriteString(text + "\n") }, funcr.Options{})}
	return r
}

func (r replica) refreshes(t *testing.T) {
	t.Helper()
	if !r.Refresh(t.Context()) {
		t.Fatal(r.log)
	}
}

// awaitTimer waits until Start waits.
func awaitTimer(r replica) {
	for !r.clock.HasWaiters() {
		runtime.Gosched()
	}
}

// accepts returns why a client that has the published CA does not accept what a replica serves with, at a
// time; "" if it does.
func accepts(r replica, ca, name string, at time.Time) string {
	served, err := r.GetCertificate(nil)
	if err != nil {
		return err.Error()
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ca))
	if _, err = served.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: at}); err != nil {
		return err.Error()
	}
	return ""
}

func published(t *testing.T, c client.Client) string {
	t.Helper()
	m := &corev1.ConfigMap{}
	check(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: Name}, m))
	if len(m.Data) != 1 {
		t.Errorf("published is %v", m.Data)
	}
	return m.Data["ca.crt"]
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestReplicasAndRestartsHaveOneCA(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	first, second := newReplica(c), newReplica(c)
	if _, err := first.GetCertificate(nil); err == nil {
		t.Error("there is a certificate before the first refresh")
	}
	first.refreshes(t)
	ca := published(t, c)
	second.refreshes(t)
	restarted := newReplica(c)
	restarted.refreshes(t)
	for _, r := range []replica{first, second, restarted} {
		for _, name := range []string{"gum.svc", "10.1.2.3", "fd00::1"} {
			if why := accepts(r, ca, name, epoch); why != "" {
				t.Errorf("%s: %s", name, why)
			}
		}
		if accepts(r, ca, "another.svc", epoch) == "" {
			t.Error("it is accepted for another name")
		}
	}
	if published(t, c) != ca || strings.Contains(ca, "PRIVATE") {
		t.Errorf("published is %s", published(t, c))
	}
	if second.log.Len() > 0 {
		t.Errorf("the second replica logs %s", second.log)
	}
}

// Whoever reads no CA, because there was none, loses to the one that created it meanwhile.
func TestManagersThatStartTogetherAgree(t *testing.T) {
	var together sync.WaitGroup
	together.Add(2)
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if _, ok := o.(*corev1.Secret); ok { // both have read that there is none
				together.Done()
				together.Wait()
			}
			return c.Create(ctx, o, options...)
		},
	})
	first, second := newReplica(c), newReplica(c)
	var both sync.WaitGroup
	for _, r := range []replica{first, second} {
		both.Go(func() {
			if !r.Refresh(t.Context()) {
				t.Error(r.log)
			}
		})
	}
	both.Wait()
	for _, r := range []replica{first, second} {
		if why := accepts(r, published(t, c), "gum.svc", epoch); why != "" {
			t.Error(why)
		}
	}
}

func TestCertificatesAreRenewedBeforeTheyEnd(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	r, other := newReplica(c), newReplica(c)
	r.refreshes(t)
	old := published(t, c)
	at := func(age time.Duration) *tls.Certificate {
		t.Helper()
		for _, r := range []replica{other, r} {
			r.clock.SetTime(epoch.Add(age))
			r.refreshes(t)
		}
		served, err := r.GetCertificate(nil)
		check(t, err)
		if why := accepts(r, published(t, c), "gum.svc", r.clock.Now()); why != "" {
			t.Errorf("after %s: %s", age, why)
		}
		return served
	}
	first := at(0)
	if at(servingLasts-servingRenewal-time.Hour) != first {
		t.Error("renewed too early")
	}
	if at(servingLasts-servingRenewal) == first {
		t.Error("not renewed 30 days before its end")
	}
	if at(authorityLasts - authorityRenewal - time.Hour); published(t, c) != old {
		t.Error("the CA is renewed too early")
	}
	at(authorityLasts - authorityRenewal)
	if published(t, c) == old || strings.Count(r.log.String()+other.log.String(), "Renewing the CA") != 1 {
		t.Errorf("the CA is not renewed once, a year before its end: %s", r.log)
	}
	// Who has a copy of the old CA checks the new certificate, until the copy ends.
	if why := accepts(r, old, "gum.svc", r.clock.Now()); why != "" {
		t.Errorf("with the old CA: %s", why)
	}
}

// Somebody deletes the Secret, and another manager makes a new CA, while this one renews the old.
func TestARenewalThatLosesToAnotherManagerTakesTheirs(t *testing.T) {
	lose := false
	theirs := replica{}
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if _, ok := o.(*corev1.Secret); ok && lose {
				lose = false
				if err := c.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}); err != nil {
					return err
				}
				if !theirs.Refresh(ctx) {
					return errors.New(theirs.log.String())
				}
				// The fake client counts versions per object; an API server, of all.
				label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
				if err := c.Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}, label); err != nil {
					return err
				}
			}
			return c.Patch(ctx, o, patch, options...)
		},
	})
	r := newReplica(c)
	theirs = newReplica(c)
	r.refreshes(t)
	for _, each := range []replica{r, theirs} {
		each.clock.SetTime(epoch.Add(authorityLasts - authorityRenewal))
	}
	lose = true
	r.refreshes(t)
	for _, each := range []replica{r, theirs} {
		if why := accepts(each, published(t, c), "gum.svc", r.clock.Now()); lose || why != "" {
			t.Errorf("it lost: %t; %s", !lose, why)
		}
	}
}

func TestACAThatCannotBeKeptIsReplacedInMemory(t *testing.T) {
	refuses := errors.New("gcu-operator-objects denied the request")
	c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if refuses != nil {
				return refuses
			}
			return c.Create(ctx, o, options...)
		},
	})
	r := newReplica(c)
	if r.Refresh(t.Context()) || !strings.Contains(r.log.String(), "denied the request") || !strings.Contains(r.log.String(), "a certificate that clients cannot verify") {
		t.Errorf("logged %s", r.log)
	}
	alone, err := r.GetCertificate(nil)
	check(t, err)
	if r.Refresh(t.Context()) {
		t.Error("it is kept")
	}
	if again, _ := r.GetCertificate(nil); again != alone {
		t.Error("it changes with every attempt")
	}
	refuses = nil
	r.refreshes(t)
	if why := accepts(r, published(t, c), "gum.svc", epoch); why != "" {
		t.Error(why)
	}
}

// A webhook may deny with any code, also with that of what another manager stored first.
func TestADeniedCAIsNotTakenForThatOfAnotherManager(t *testing.T) {
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusConflict, Reason: metav1.StatusReasonAlreadyExists, Message: `admission webhook "w" denied the request: not here`}}
	for what, kind := range map[string]client.Object{"its Secret": &corev1.Secret{}, "what is published": &corev1.ConfigMap{}} {
		denies, tried := true, 0
		c := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				if denies && reflect.TypeOf(o) == reflect.TypeOf(kind) {
					tried++
					return denied
				}
				return c.Create(ctx, o, options...)
			},
		})
		r := newReplica(c)
		if r.Refresh(t.Context()) || tried != 1 || !strings.Contains(r.log.String(), "denied the request: not here") {
			t.Errorf("%s: tried %d times, logged %s", what, tried, r.log)
		}
		denies = false
		r.refreshes(t)
		if why := accepts(r, published(t, c), "gum.svc", epoch); why != "" {
			t.Errorf("%s: %s", what, why)
		}
	}
}

func TestWhatIsNoCAIsNotUsed(t *testing.T) {
	own, err := newAuthority(epoch)
	check(t, err)
	other, err := newAuthority(epoch)
	check(t, err)
	mine, err := own.data()
	check(t, err)
	theirs, err := other.data()
	check(t, err)
	for name, data := range map[string]map[string][]byte{
		"nothing":        {},
		"no key":         {"ca.crt": mine["ca.crt"]},
		"another's key":  {"ca.crt": mine["ca.crt"], "ca.key": theirs["ca.key"]},
		"no certificate": {"ca.crt": []byte("x"), "ca.key": mine["ca.key"]},
	} {
		c := fake.NewClientBuilder().WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}, Data: data}).Build()
		r := newReplica(c)
		if r.Refresh(t.Context()) || !strings.Contains(r.log.String(), "delete it to get another CA") {
			t.Errorf("%s: %s", name, r.log)
		}
	}
}

// Nobody that has a copy of the published CA refuses a replica after the Secret was deleted, if it follows the ConfigMap.
func TestADeletedCAIsReplacedWithoutAnInterruption(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	first, second := newReplica(c), newReplica(c)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, r := range []replica{first, second} {
		running.Go(func() { check(t, r.Start(ctx)) })
		awaitTimer(r)
	}
	old := published(t, c)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}
	check(t, c.Delete(t.Context(), secret))
	copied := old
	for passed := time.Duration(0); passed < time.Hour; passed += checkEvery {
		for _, r := range []replica{first, second} { // one after the other
			r.clock.Step(checkEvery)
			awaitTimer(r)
			for _, each := range []replica{first, second} {
				for has, ca := range map[string]string{"the published CA": published(t, c), "a copy of a minute ago": copied} {
					if why := accepts(each, ca, "gum.svc", each.clock.Now()); why != "" {
						t.Fatalf("after %s with %s: %s", passed, has, why)
					}
				}
			}
		}
		if passed%time.Minute == 0 {
			copied = published(t, c)
		}
		if passed == 0 && published(t, c) == old {
			t.Error("it is not noticed within seconds")
		}
	}
	if now := published(t, c); accepts(first, old, "gum.svc", first.clock.Now()) == "" || strings.Count(now, "BEGIN") != 1 {
		t.Errorf("an hour later the old CA is still in use: %s", now)
	}
	if checkEvery > 10*time.Second {
		t.Errorf("the Secret is read every %s", checkEvery)
	}
	cancel()
	running.Wait()
}

// replaced lets replicas go on for 20 minutes after the Secret was deleted, which happens again at each of the times in deletions. The test
// fails if a client refuses them whose copy of the published CA is a minute old. It returns how often another one was published.
func replaced(t *testing.T, replicas []replica, c client.Client, deletions ...time.Duration) (writes int) {
	t.Helper()
	copied := published(t, c)
	last := copied
	for passed := time.Duration(0); passed < 20*time.Minute; passed += checkEvery {
		if slices.Contains(append(deletions, 0), passed) {
			check(t, c.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}}))
		}
		for _, r := range replicas {
			r.clock.Step(checkEvery)
			r.refreshes(t)
			for _, each := range replicas {
				for has, ca := range map[string]string{"the published CA": published(t, c), "a copy of a minute ago": copied} {
					if why := accepts(each, ca, "gum.svc", each.clock.Now()); why != "" {
						t.Fatalf("after %s with %s: %s", passed, has, why)
					}
				}
			}
			if now := published(t, c); now != last {
				writes, last = writes+1, now
			}
		}
		if passed%time.Minute == 0 {
			copied = published(t, c)
		}
	}
	if strings.Count(last, "BEGIN") != 1 {
		t.Errorf("in the end the old CA is still published: %s", last)
	}
	return writes
}

// Replicas whose clocks differ agree on what is published, and serve the former certificate for as long.
func TestReplicasWhoseClocksDifferReplaceADeletedCA(t *testing.T) {
	for _, ahead := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
		c := fake.NewClientBuilder().Build()
		replicas := []replica{newReplica(c), newReplica(c)}
		replicas[1].clock.Step(ahead)
		for _, r := range replicas {
			r.refreshes(t)
		}
		if writes := replaced(t, replicas, c); writes != 2 {
			t.Errorf("another one %s ahead: the CA is published %d times, want with the former one and without", ahead, writes)
		}
	}
}

// A CA is deleted while the one before it is still in use.
func TestACAThatIsDeletedTwiceIsReplacedWithoutAnInterruption(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	replicas := []replica{newReplica(c), newReplica(c)}
	for _, r := range replicas {
		r.refreshes(t)
	}
	replaced(t, replicas, c, 2*time.Minute, 6*time.Minute)
}

// Somebody changes what is published: it is put back without a restart.
func TestThePublishedCAIsPutBack(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	r := newReplica(c)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Start(ctx) }()
	awaitTimer(r)
	ca := published(t, c)
	check(t, c.Update(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name}, Data: map[string]string{"ca.crt": "x", "more": "y"}}))
	r.clock.Step(checkEvery)
	awaitTimer(r)
	if got := published(t, c); got != ca {
		t.Errorf("published is %s", got)
	}
	cancel()
	check(t, <-ended)
}
