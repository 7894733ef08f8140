package hostagent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/authn/kubernetes"
	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
)

// prepull sees to it that an image is on this node. That it is there is the
// predicate; the record is for people.
func (e *Executor) prepull(ctx context.Context, o Operation, r record) (Result, error) {
	limit, cancel := context.WithTimeout(ctx, o.timeout())
	defer cancel()
	r.Result.State, r.Result.Reason, r.Result.Message = Running, ReasonInProgress, ""
	r.Result.Attempts++
	if err := e.put(r); err != nil {
		return Result{}, err
	}
	kind, err := e.host.detect(limit, o.engine())
	if err != nil {
		return e.end(r, Failed, ReasonNoEngine, err.Error())
	}
	client, err := e.host.connect(kind)
	if err != nil {
		return e.end(r, Failed, ReasonNoEngine, err.Error())
	}
	defer client.close()
	id, reason, err := fetch(limit, client, *o.Prepull)
	switch {
	case ctx.Err() != nil:
		return r.Result, context.Cause(ctx)
	case limit.Err() != nil && err != nil:
		return e.end(r, Failed, ReasonPullTimedOut, fmt.Sprintf("pulling %s: not done after %s: %v", o.Prepull.Image, o.timeout(), err))
	case err != nil:
		return e.end(r, Failed, reason, fmt.Sprintf("pulling %s: %v", o.Prepull.Image, err))
	}
	r.Result.Facts.Image = &ImageFacts{ID: id}
	return e.end(r, Done, reason, "")
}

// fetch pulls an image that is not there, with each credential that fits it in
// turn.
func fetch(ctx context.Context, client engine, p Prepull) (id string, reason Reason, err error) {
	if !p.Always {
		if id, err := client.image(ctx, p.Image); err != nil || id != "" {
			return id, pick(err == nil, ReasonPresent, ReasonPullFailed), err
		}
	}
	credentials, err := credentialsFor(ctx, p.Image, p.Secrets)
	if err != nil {
		return "", ReasonBadPullSecret, err
	}
	var refused []error
	for _, credential := range credentials {
		id, err := client.pull(ctx, p.Image, credential)
		if err == nil {
			return id, ReasonPulled, nil
		}
		refused = append(refused, err)
		if ctx.Err() != nil {
			break
		}
	}
	return "", ReasonPullFailed, errors.Join(refused...)
}

func pick(condition bool, yes, no Reason) Reason {
	if condition {
		return yes
	}
	return no
}

// credentialsFor returns the credentials in pull secrets that fit an image, in
// the order of the secrets; a single empty one when none fits. An error names
// the secret that cannot be read.
func credentialsFor(ctx context.Context, image string, secrets []corev1.Secret) ([]authn.AuthConfig, error) {
	reference, err := name.ParseReference(image)
	if err != nil {
		return nil, err
	}
	var credentials []authn.AuthConfig
	for _, secret := range secrets {
		// A keychain of one secret each: one of several would give its first match only.
		keychain, err := kubernetes.NewFromPullSecrets(ctx, []corev1.Secret{secret})
		if err != nil {
			return nil, fmt.Errorf("pull secret %s/%s cannot be read", secret.Namespace, secret.Name) // its text may hold a password
		}
		found, err := authn.Resolve(ctx, keychain, reference.Context())
		if err != nil {
			return nil, fmt.Errorf("pull secret %s/%s: %w", secret.Namespace, secret.Name, err)
		}
		if found == authn.Anonymous {
			continue
		}
		credential, err := found.Authorization()
		if err != nil {
			return nil, fmt.Errorf("pull secret %s/%s: %w", secret.Namespace, secret.Name, err)
		}
		if !slices.Contains(credentials, *credential) {
			credentials = append(credentials, *credential)
		}
	}
	if len(credentials) == 0 {
		return []authn.AuthConfig{{}}, nil
	}
	return credentials, nil
}
