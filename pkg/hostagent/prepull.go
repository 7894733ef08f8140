package hostagent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
)

// prepull sees to it that images are on this node. That they are there is the
// predicate; the record is for people.
func (e *Executor) prepull(ctx context.Context, o Operation, r record) (Result, error) {
	limit, cancel := context.WithTimeout(ctx, o.timeout())
	defer cancel()
	r.Result.State, r.Result.Reason, r.Result.Message = Running, ReasonInProgress, "pulling images"
	r.Result.Finished, r.Result.Facts = time.Time{}, Facts{}
	r.Result.Attempts++
	if err := e.put(r); err != nil {
		return Result{}, err
	}
	done := ReasonPresent
	for _, image := range o.Prepull.Images {
		id, reason, err := e.fetch(limit, o, image)
		switch {
		case errors.Is(context.Cause(ctx), ErrWithdrawn):
			return e.end(r, Failed, ReasonWithdrawn, ErrWithdrawn.Error())
		case ctx.Err() != nil:
			return r.Result, context.Cause(ctx)
		case limit.Err() != nil && err != nil:
			return e.end(r, Failed, ReasonPullTimedOut, noted(o, fmt.Sprintf("pulling %s: not done after %s: %v", image, o.timeout(), err)))
		case err != nil:
			return e.end(r, Failed, reason, noted(o, fmt.Sprintf("pulling %s: %v", image, err)))
		case reason == ReasonPulled:
			done = ReasonPulled
		}
		r.Result.Facts.Images = append(r.Result.Facts.Images, ImageFacts{Name: image, ID: id})
	}
	return e.end(r, Done, done, noted(o, ""))
}

// noted puts the note of a prepull before a message.
func noted(o Operation, message string) string {
	if o.Prepull.Note == "" || message == "" {
		return o.Prepull.Note + message
	}
	return o.Prepull.Note + "; " + message
}

// fetch sees to it that one image is there.
func (e *Executor) fetch(ctx context.Context, o Operation, image string) (id string, reason Reason, err error) {
	kind, err := e.host.detect(ctx, o.engine())
	if err != nil {
		return "", ReasonNoEngine, err
	}
	client, err := e.host.connect(kind)
	if err != nil {
		return "", ReasonNoEngine, err
	}
	defer func() { err = errors.Join(err, client.close()) }()
	return pull(ctx, client, image, *o.Prepull)
}

// pull pulls an image that is not there, with each credential that fits it in turn.
func pull(ctx context.Context, client engine, image string, p Prepull) (id string, reason Reason, err error) {
	if id, err := client.image(ctx, image); err != nil || id != "" {
		return id, pick(err == nil, ReasonPresent, ReasonPullFailed), err
	}
	credentials, err := credentialsFor(image, p.Secrets)
	if err != nil {
		return "", ReasonBadPullSecret, err
	}
	var refused []error
	for _, credential := range credentials {
		id, err := client.pull(ctx, image, credential)
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
func credentialsFor(image string, secrets []corev1.Secret) ([]authn.AuthConfig, error) {
	reference, err := name.ParseReference(image)
	if err != nil {
		return nil, err
	}
	var credentials []authn.AuthConfig
	for i := range secrets {
		credential, fits, err := credentialIn(&secrets[i], reference.Context().String())
		if err != nil {
			return nil, fmt.Errorf("pull secret %s/%s cannot be read", secrets[i].Namespace, secrets[i].Name) // its text may hold a password
		}
		if fits && !slices.Contains(credentials, credential) {
			credentials = append(credentials, credential)
		}
	}
	if len(credentials) == 0 {
		return []authn.AuthConfig{{}}, nil
	}
	return credentials, nil
}
