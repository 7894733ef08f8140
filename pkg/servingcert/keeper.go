package servingcert

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/topsops/gcu-operator/pkg/denial"
)

// The Secret can be created because the manager creates that of nightingale; the admission policy
// gcu-operator-objects allows these two names, and no others.
// +kubebuilder:rbac:groups="",namespace=kube-system,resources=secrets,resourceNames=gcu-operator-ca,verbs=get;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create;patch

// Name is that of the Secret with the CA, and of the ConfigMap that publishes it.
const Name = "gcu-operator-ca"

const (
	// checkEvery is how often the CA is read again, retryAfter after an error.
	checkEvery, retryAfter = 10 * time.Second, time.Minute
	// attempts is how often a write is repeated because another manager wrote.
	attempts = 3
)

// Keeper keeps the CA and the serving certificate of this process. It is a Runnable of the manager on every
// replica; call Refresh before, so that the first client gets a certificate of the CA.
type Keeper struct {
	// Client reads and writes without a cache.
	Client client.Client
	// Namespace of the Secret and the ConfigMap.
	Namespace string
	// Names are the DNS names and IP addresses of this replica; empty ones are ignored.
	Names []string
	// Webhook is the ValidatingWebhookConfiguration that is given the CA, again when a tool took it away; "" for none.
	Webhook string
	Clock   clock.WithTicker
	Log     logr.Logger

	serving atomic.Pointer[tls.Certificate]
	// last is the CA as it was read last, nil before; its certificate is known since.
	last  *authority
	since time.Time
	// announced is the CA that an administrator was told to write into the Webhook, nil for none.
	announced []byte
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every replica serves.
func (*Keeper) NeedLeaderElection() bool { return false }

// GetCertificate is tls.Config.GetCertificate.
func (k *Keeper) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	if serving := k.serving.Load(); serving != nil {
		return serving, nil
	}
	return nil, errors.New("there is no serving certificate yet")
}

// Start refreshes the certificates until ctx is done.
func (k *Keeper) Start(ctx context.Context) error {
	for {
		wait := retryAfter
		if k.Refresh(ctx) {
			wait = checkEvery
		}
		timer := k.Clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C():
		}
	}
}

// Refresh reads the CA, or makes it, publishes it, and renews what is due. It reports whether that is done;
// otherwise it logs why, and the process serves with the certificate it had, or with one of a CA of its own.
func (k *Keeper) Refresh(ctx context.Context) bool {
	err := k.keep(ctx)
	if err == nil {
		return true
	}
	k.Log.Error(err, "Cannot keep the CA of the serving certificates, trying again", "Secret", klog.KRef(k.Namespace, Name), "ConfigMap", klog.KRef(k.Namespace, Name))
	if k.serving.Load() == nil {
		k.Log.Info("Serving with a certificate that clients cannot verify")
		own, err := newAuthority(k.Clock.Now())
		if err == nil {
			err = k.serve(own)
		}
		if err != nil {
			k.Log.Error(err, "Cannot make a serving certificate")
		}
	}
	return false
}

func (k *Keeper) keep(ctx context.Context) error {
	ca, err := k.authority(ctx)
	if err != nil {
		return err
	}
	if !k.knows(ca) {
		k.since = k.Clock.Now()
	}
	k.last = ca
	public, err := ca.public()
	if err != nil {
		return err
	}
	// Clients have a CA before the first certificate of it is served.
	return errors.Join(k.publish(ctx, public), k.giveToWebhook(ctx, public), k.serve(ca))
}

// knows reports whether a CA is the one that was read last.
func (k *Keeper) knows(ca *authority) bool {
	return k.last != nil && k.last.certificate.Equal(ca.certificate)
}

// serve makes a serving certificate of a CA, unless there is one.
func (k *Keeper) serve(ca *authority) error {
	now := k.Clock.Now()
	if ca.serves(k.serving.Load(), now, now.Sub(k.since)) {
		return nil
	}
	serving, err := ca.issue(k.Names, now)
	if err == nil {
		k.serving.Store(serving)
	}
	return err
}

// authority returns the CA of all replicas: the stored one, which it creates or renews.
func (k *Keeper) authority(ctx context.Context) (ca *authority, err error) {
	for range attempts {
		if ca, err = k.stored(ctx); !denial.IsAlreadyExists(err) && !denial.IsConflict(err) {
			return ca, err
		}
	}
	return nil, err
}

// stored returns the stored CA, or the one that it stores. It returns a conflict if another manager wrote
// meanwhile: theirs is the CA.
func (k *Keeper) stored(ctx context.Context) (*authority, error) {
	secret := &corev1.Secret{}
	err := k.Client.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: Name}, secret)
	if apierrors.IsNotFound(err) {
		return k.create(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the CA: %w", err)
	}
	ca, err := readAuthority(secret.Data)
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s/%s, delete it to get another CA: %w", k.Namespace, Name, err)
	}
	now := k.Clock.Now()
	switch {
	case due(ca.certificate, now, authorityRenewal):
		if ca, err = ca.renewed(now); err != nil {
			return nil, err
		}
		k.Log.Info("Renewing the CA", "until", ca.certificate.NotAfter)
	case len(ca.former) > 0 && k.knows(ca) && now.Sub(k.since) >= overlap:
		k.Log.Info("Removing the CA before")
		ca.former = nil
	default:
		return ca, nil
	}
	before := secret.DeepCopy()
	if secret.Data, err = ca.data(); err != nil {
		return nil, err
	}
	if err := k.Client.Patch(ctx, secret, locked(before)); err != nil {
		return nil, fmt.Errorf("changing the CA: %w", err)
	}
	return ca, nil
}

func (k *Keeper) create(ctx context.Context) (*authority, error) {
	ca, err := newAuthority(k.Clock.Now())
	if err != nil {
		return nil, err
	}
	if k.last != nil { // its Secret was deleted
		ca.former = append([]*x509.Certificate{k.last.certificate}, k.last.former...)
		ca.former = ca.former[:min(len(ca.former), maxFormer)]
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: Name}}
	if secret.Data, err = ca.data(); err != nil {
		return nil, err
	}
	k.Log.Info("Creating the CA", "until", ca.certificate.NotAfter)
	if err := k.Client.Create(ctx, secret); err != nil {
		return nil, fmt.Errorf("storing the CA: %w", err)
	}
	return ca, nil
}

// publish writes the CA into the ConfigMap.
func (k *Keeper) publish(ctx context.Context, public []byte) error {
	published := &corev1.ConfigMap{}
	err := k.Client.Get(ctx, client.ObjectKey{Namespace: k.Namespace, Name: Name}, published)
	switch {
	case apierrors.IsNotFound(err):
		k.Log.Info("Publishing the CA")
		published.Namespace, published.Name, published.Data = k.Namespace, Name, map[string]string{certificateKey: string(public)}
		err = k.Client.Create(ctx, published)
	case err == nil && !bytes.Equal(public, []byte(published.Data[certificateKey])):
		k.Log.Info("Publishing the CA")
		before := published.DeepCopy()
		published.Data = map[string]string{certificateKey: string(public)}
		err = k.Client.Patch(ctx, published, locked(before))
	}
	if denial.IsAlreadyExists(err) || denial.IsConflict(err) { // another manager publishes the same
		return nil
	}
	if err != nil {
		return fmt.Errorf("publishing the CA: %w", err)
	}
	return nil
}

// giveToWebhook writes the CA into the Webhook. Without the right, an administrator writes it, which it says once for each.
func (k *Keeper) giveToWebhook(ctx context.Context, public []byte) error {
	if k.Webhook == "" {
		return nil
	}
	err := giveTo(ctx, k.Client, k.Webhook, public, k.Log)
	if !apierrors.IsForbidden(err) {
		k.announced = nil
		return err
	}
	if !bytes.Equal(k.announced, public) {
		k.Log.Info("An administrator has to give the CA to the webhook", "ValidatingWebhookConfiguration", k.Webhook, "ConfigMap", klog.KRef(k.Namespace, Name), "reason", err.Error())
	}
	k.announced = public
	return nil
}

// locked returns a patch that fails if the object changed since it was read.
func locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}
