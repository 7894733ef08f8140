package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/semaphore"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/denial"
	"github.com/topsops/gcu-operator/pkg/logging"
	"github.com/topsops/gcu-operator/pkg/preview"
)

// ResponseTimeout bounds a response: the wait for the semaphore, what is read, and that the prediction is not begun later. It takes
// half a second for 10 000 nodes, which the timeoutSeconds of the configuration leave room for.
const ResponseTimeout = 3 * time.Second

// Predictor predicts upgrades: an inquiry.Predictor.
type Predictor interface {
	// HasVersions reports whether the policy of a gr says which versions are allowed.
	HasVersions(ctx context.Context, wanted *topsv1.GcuResource) (bool, error)
	// AskVersions predicts an upgrade, to see whether its versions are allowed.
	AskVersions(ctx context.Context, q preview.Question) (*preview.Preview, error)
}

// Versions refuses changes of a gr whose versions its policy allows on no reachable node.
type Versions struct {
	Predictor Predictor
	// Reader reads grs from the cache.
	Reader client.Reader
	// Semaphore has room for one prediction at a time, as each is expensive for a large fleet. It is that of the webhook alone: requests
	// that keep it busy do not delay plans.
	Semaphore *semaphore.Weighted
	// Account is the user name of the operator, whose changes are not looked at; config/webhook names it too.
	Account string
	// Now returns the time.
	Now func() time.Time
	// ResponseTimeout is the constant, or less for a test.
	ResponseTimeout time.Duration
}

// Handle responds to the API server. Dry runs are never denied: a tool that dry-runs all that it will apply may
// send a gr before the policy that allows it exists.
func (v *Versions) Handle(ctx context.Context, c *change) (response admission.Response) {
	ctx = log.IntoContext(ctx, log.FromContext(ctx).WithValues(logging.GcuResource(c.Name, c.OldObject.Metadata.UID)...))
	defer func() {
		if r := recover(); r != nil { // net/http would close the connection, and log it as an error of its own
			response = notChecked(ctx, fmt.Errorf("internal error: %v", r))
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, v.ResponseTimeout)
	defer cancel()
	prediction, err := v.predict(ctx, c)
	switch {
	case err != nil:
		return notChecked(ctx, err)
	case prediction == nil:
		return admission.Allowed("")
	case prediction.Refused() != "" && c.DryRun:
		return admission.Allowed("").WithWarnings(WouldBeRefused + prediction.Refused())
	case prediction.Refused() != "":
		return admission.Denied(prediction.Refused())
	case prediction.Waiting() != "":
		return admission.Allowed("").WithWarnings(prediction.Waiting())
	}
	return admission.Allowed("")
}

// WouldBeRefused begins the warning of a dry run that would be refused otherwise.
const WouldBeRefused = "without --dry-run this is refused: "

func notChecked(ctx context.Context, err error) admission.Response {
	log.FromContext(ctx).Error(err, "Allowing a change of a GcuResource whose versions are not checked")
	return admission.Allowed("").WithWarnings(fmt.Sprintf("%s: %v", preview.NotChecked, err))
}

// predict returns what a change does; nil if its versions do not matter.
func (v *Versions) predict(ctx context.Context, c *change) (*preview.Preview, error) {
	if c.UserInfo.Username == v.Account {
		return nil, nil
	}
	present, err := v.stored(ctx, c)
	if err != nil || present == nil {
		return nil, err
	}
	if len(c.Object) > maxObject {
		return nil, fmt.Errorf("the GcuResource is larger than %d KiB", maxObject>>10)
	}
	if has, err := v.hasVersions(ctx, c, present.Name); err != nil || !has {
		return nil, err
	}
	if err := v.Semaphore.Acquire(ctx, 1); err != nil {
		return nil, apierrors.NewTimeoutError("too many changes at the same time", 1)
	}
	defer v.Semaphore.Release(1)
	q := preview.Question{Present: present, Wanted: &topsv1.GcuResource{}, Approved: true}
	if err := json.Unmarshal(c.Object, q.Wanted); err != nil {
		return nil, unreadable(err)
	}
	return v.Predictor.AskVersions(ctx, q)
}

// hasVersions reports whether the policy of the changed gr says which versions are allowed, if it has that name.
func (v *Versions) hasVersions(ctx context.Context, c *change, name string) (bool, error) {
	var wanted struct {
		Metadata struct {
			Name        string            `json:"name"`
			Annotations map[string]string `json:"annotations"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(c.Object, &wanted); err != nil {
		return false, unreadable(err)
	}
	if wanted.Metadata.Name != name {
		return false, nil
	}
	return v.Predictor.HasVersions(ctx, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: wanted.Metadata.Annotations}})
}

func unreadable(err error) error { return fmt.Errorf("reading the GcuResource: %w", err) }

// stored returns the gr that a change is about, as it is stored, if the request has its UID: the API server is not the
// only one that can reach this. Otherwise nil.
func (v *Versions) stored(ctx context.Context, c *change) (*topsv1.GcuResource, error) {
	var gr topsv1.GcuResource
	if err := v.Reader.Get(ctx, client.ObjectKey{Name: c.Name}, &gr); err != nil {
		return nil, denial.IgnoreNotFound(err)
	}
	if gr.UID != c.OldObject.Metadata.UID {
		return nil, nil
	}
	return &gr, nil
}
