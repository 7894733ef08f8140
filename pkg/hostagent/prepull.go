package hostagent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/hostagent/task"
)

// puller pulls images.
type puller struct {
	host    host
	records *records
}

// prepull ensures that images are on this node. Only their presence decides; the record is
// for people.
func (u puller) prepull(ctx context.Context, request task.Request, r task.Record) (task.Result, error) {
	limit, cancel := context.WithTimeout(ctx, request.Timeout())
	defer cancel()
	r.Result.State, r.Result.Reason, r.Result.Message = topsv1.HostTaskRunning, task.ReasonInProgress, "pulling images"
	r.Result.Finished, r.Result.Facts = time.Time{}, task.Facts{}
	r.Result.Attempts++
	if err := u.records.put(r); err != nil {
		return task.Result{}, err
	}
	done, left := task.ReasonPresent, ""
	for _, image := range request.Prepull.Images {
		id, reason, err := u.fetch(limit, request, image)
		switch {
		case errors.Is(context.Cause(ctx), task.ErrNotRequested):
			return u.records.end(r, topsv1.HostTaskFailed, task.ReasonWithdrawn, task.ErrNotRequested.Error())
		case ctx.Err() != nil:
			return r.Result, context.Cause(ctx)
		case err != nil && (limit.Err() != nil || status.Code(err) == codes.DeadlineExceeded): // the runtime may notice first
			return u.records.end(r, topsv1.HostTaskFailed, task.ReasonPullTimedOut, noted(request, fmt.Sprintf("pulling %s: not done after %s: %v", image, request.Timeout(), err)))
		case reason == task.ReasonPullFailed && (request.Prepull.LeaveToKubelet || request.Prepull.LeaveUnauthorized && isUnauthorized(err, image)):
			left += fmt.Sprintf("; image %s is not pulled in advance: the kubelet pulls it when the pod starts: %v", image, err)
			continue
		case err != nil:
			return u.records.end(r, topsv1.HostTaskFailed, reason, noted(request, fmt.Sprintf("pulling %s: %v", image, err)))
		case reason == task.ReasonPulled:
			done = task.ReasonPulled
		}
		r.Result.Facts.Images = append(r.Result.Facts.Images, task.ImageFacts{Name: image, ID: id})
	}
	if left != "" {
		done = task.ReasonLeftToKubelet
	}
	return u.records.end(r, topsv1.HostTaskDone, done, noted(request, strings.TrimPrefix(left, "; ")))
}

// noted prepends the note of a prepull to a message.
func noted(request task.Request, message string) string {
	if request.Prepull.Note == "" || message == "" {
		return request.Prepull.Note + message
	}
	return request.Prepull.Note + "; " + message
}

// fetch ensures that one image is present.
func (u puller) fetch(ctx context.Context, request task.Request, image string) (id string, reason task.Reason, err error) {
	kind, err := u.host.detect(ctx, request.Engine)
	if err != nil {
		return "", task.ReasonNoEngine, err
	}
	client, err := u.host.connect(kind)
	if err != nil {
		return "", task.ReasonNoEngine, err
	}
	defer func() { err = errors.Join(err, client.close()) }()
	return pull(ctx, client, image, *request.Prepull)
}

// pull pulls an image if it is absent, trying each matching credential in turn.
func pull(ctx context.Context, client engine, image string, p task.Prepull) (id string, reason task.Reason, err error) {
	if id, err := client.image(ctx, image); err != nil || id != "" {
		return id, pick(err == nil, task.ReasonPresent, task.ReasonPullFailed), err
	}
	credentials, err := credentialsFor(image, p.Secrets)
	if err != nil {
		return "", task.ReasonBadPullSecret, err
	}
	var refused []error
	for _, credential := range credentials {
		id, err := client.pull(ctx, image, credential)
		if err == nil {
			return id, task.ReasonPulled, nil
		}
		refused = append(refused, err)
		if ctx.Err() != nil {
			break
		}
	}
	return "", task.ReasonPullFailed, errors.Join(refused...)
}

// isUnauthorized reports whether a registry wants other credentials than each of those that were tried, by the words that docker and
// containerd pass on with the name of the image. They return the same for a repository that does not exist, if the registry does not distinguish.
func isUnauthorized(err error, image string) bool {
	if all, tried := err.(interface{ Unwrap() []error }); tried {
		return !slices.ContainsFunc(all.Unwrap(), func(err error) bool { return !isUnauthorized(err, image) })
	}
	said := strings.ToLower(err.Error())
	if reference, err := name.ParseReference(image); err == nil {
		for _, named := range []string{image, reference.Context().Name(), reference.Context().RepositoryStr(), reference.Context().RegistryStr()} {
			said = strings.ReplaceAll(said, strings.ToLower(named), "")
		}
	}
	return slices.ContainsFunc([]string{"unauthorized", "authorization failed", "authentication required", "no basic auth credentials", "access denied", "access to the resource is denied",
		"403 forbidden"}, func(words string) bool { return strings.Contains(said, words) })
}

func pick(condition bool, yes, no task.Reason) task.Reason {
	if condition {
		return yes
	}
	return no
}

// credentialsFor returns the credentials in pull secrets that match an image, the most specific
// ones first, else in the order of the secrets; a single empty one when none matches. The error
// names the unreadable secret.
func credentialsFor(image string, secrets []corev1.Secret) ([]authn.AuthConfig, error) {
	repository, err := repositoryOf(image)
	if err != nil {
		return nil, err
	}
	var all []keyed
	for i := range secrets {
		found, err := keyedOf(&secrets[i])
		if err != nil {
			return nil, fmt.Errorf("pull secret %s/%s cannot be read", secrets[i].Namespace, secrets[i].Name) // the cause may contain a password
		}
		all = append(all, found...)
	}
	var credentials []authn.AuthConfig
	for _, k := range fitting(all, repository) {
		if !slices.Contains(credentials, k.credential) {
			credentials = append(credentials, k.credential)
		}
	}
	if len(credentials) == 0 {
		return []authn.AuthConfig{{}}, nil
	}
	return credentials, nil
}
