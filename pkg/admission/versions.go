package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/preview"
	"github.com/topsops/gcu-operator/pkg/preview/inquiry"
)

// Path is where Versions is served (config/webhook/configuration.yaml).
const Path = "/admission/v1/versions"

// Patience is how long a request waits for its turn. The rest of the timeoutSeconds of the configuration is
// for the prediction: half a second for 10 000 nodes.
const Patience = 3 * time.Second

// Asker predicts upgrades: an inquiry.Asker.
type Asker interface {
	// HasVersions reports whether the policy of a gr says which versions are allowed.
	HasVersions(ctx context.Context, wanted *topsv1.GcuResource) (bool, error)
	// Ask predicts an upgrade.
	Ask(ctx context.Context, q preview.Question) (*preview.Preview, error)
}

// Versions refuses changes of a gr whose versions its policy allows on no reachable node.
type Versions struct {
	Asker Asker
	// Reader reads grs from the cache.
	Reader client.Reader
	// Turns are those of everything that predicts in this process.
	Turns inquiry.Turns
	// Patience is how long to wait for a turn, and for what is read.
	Patience time.Duration
}

// Handle implements admission.Handler.
func (v *Versions) Handle(ctx context.Context, request admission.Request) (response admission.Response) {
	defer func() {
		if r := recover(); r != nil { // controller-runtime would refuse the request
			response = notChecked(ctx, fmt.Errorf("internal error: %v", r))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, v.Patience)
	defer cancel()
	answer, err := v.foresee(ctx, &request)
	switch {
	case err != nil:
		return notChecked(ctx, err)
	case answer == nil:
		return admission.Allowed("")
	case answer.Refused() != "":
		return admission.Denied(answer.Refused())
	case answer.Waiting() != "":
		return admission.Allowed("").WithWarnings(answer.Waiting())
	}
	return admission.Allowed("")
}

func notChecked(ctx context.Context, err error) admission.Response {
	log.FromContext(ctx).Error(err, "Allowing a change of a GcuResource whose versions are not checked")
	return admission.Allowed("").WithWarnings(fmt.Sprintf("%s: %v", preview.NotChecked, err))
}

// foresee predicts what a change does; nil if its versions do not matter.
func (v *Versions) foresee(ctx context.Context, request *admission.Request) (*preview.Preview, error) {
	q := preview.Question{Present: &topsv1.GcuResource{}, Wanted: &topsv1.GcuResource{}, Approved: true}
	for _, side := range []struct {
		raw  []byte
		into *topsv1.GcuResource
	}{{request.OldObject.Raw, q.Present}, {request.Object.Raw, q.Wanted}} {
		if err := json.Unmarshal(side.raw, side.into); err != nil {
			return nil, fmt.Errorf("reading the GcuResource: %w", err)
		}
	}
	if is, err := v.isStored(ctx, q.Present); err != nil || !is {
		return nil, err
	}
	if has, err := v.Asker.HasVersions(ctx, q.Wanted); err != nil || !has {
		return nil, err
	}
	release, err := v.Turns.Take(ctx)
	if err != nil {
		return nil, apierrors.NewTimeoutError("too many plans at the same time", 1)
	}
	defer release()
	return v.Asker.Ask(ctx, q)
}

// isStored reports whether a gr is stored, under its UID: the API server is not the only one that can reach this.
func (v *Versions) isStored(ctx context.Context, gr *topsv1.GcuResource) (bool, error) {
	var stored topsv1.GcuResource
	if err := v.Reader.Get(ctx, client.ObjectKey{Name: gr.Name}, &stored); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return stored.UID == gr.UID, nil
}

// Handler returns what is served at Path.
func (v *Versions) Handler() http.Handler { return &admission.Webhook{Handler: v} }
