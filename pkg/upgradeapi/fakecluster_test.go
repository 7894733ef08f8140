package upgradeapi

import (
	"context"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// fakeCluster simulates an API server with one gr, named gr, and records writes.
type fakeCluster struct {
	client.Client
	// asked are the writes; stored counts those that were no dry runs.
	asked  []string
	stored int
	// annotations of the gr, recreation its stored recreation, plan the only one that is stored.
	annotations map[string]string
	recreation  *topsv1.GcuResourceRecreation
	plan        *topsv1.UpgradePlan
	// refuses is the error for the creation of a gr, storing that for its recreation, keeps that for its deletion; onDelete is called before a deletion.
	refuses  error
	storing  error
	keeps    func(dryRun bool) error
	onDelete func()
	// leaves: the gr is being deleted.
	leaves bool
	// authenticated is the result for every token.
	authenticated bool
}

func (s *fakeCluster) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	if stored, ok := o.(*topsv1.GcuResourceRecreation); ok && s.recreation != nil {
		s.recreation.DeepCopyInto(stored)
		return nil
	}
	if stored, ok := o.(*topsv1.UpgradePlan); ok && s.plan != nil && s.plan.Name == key.Name {
		s.plan.DeepCopyInto(stored)
		return nil
	}
	_, typed := o.(*topsv1.GcuResource)
	if !typed && o.GetObjectKind().GroupVersionKind() != grKind || key.Name != "gr" {
		return apierrors.NewNotFound(grResource, key.Name)
	}
	o.SetName(key.Name)
	o.SetUID("uid-1")
	o.SetResourceVersion("7")
	o.SetAnnotations(s.annotations)
	if s.leaves {
		o.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
	}
	return nil
}

func (s *fakeCluster) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return nil
}

func (s *fakeCluster) Create(_ context.Context, o client.Object, options ...client.CreateOption) error {
	switch o := o.(type) {
	case *authenticationv1.TokenReview:
		o.Status.Authenticated = s.authenticated
		return nil
	case *authorizationv1.SubjectAccessReview:
		o.Status.Allowed = true
		return nil
	case *topsv1.GcuResource:
		s.write((&client.CreateOptions{}).ApplyOptions(options).DryRun, "create gr "+o.Name+o.GenerateName)
		return s.refuses
	case *topsv1.GcuResourceRecreation:
		if s.storing != nil {
			return s.storing
		}
	}
	s.write((&client.CreateOptions{}).ApplyOptions(options).DryRun, "create "+o.GetName())
	return nil
}

func (s *fakeCluster) Delete(_ context.Context, o client.Object, options ...client.DeleteOption) error {
	applied := (&client.DeleteOptions{}).ApplyOptions(options)
	text := "delete " + o.GetName()
	if applied.Preconditions != nil && applied.Preconditions.UID != nil {
		text += " with UID " + string(*applied.Preconditions.UID)
	}
	s.write(applied.DryRun, text)
	if s.onDelete != nil {
		s.onDelete()
	}
	if _, is := o.(*topsv1.GcuResource); is && s.keeps != nil {
		return s.keeps(len(applied.DryRun) > 0)
	}
	return nil
}

func (s *fakeCluster) Patch(_ context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	data, err := patch.Data(o)
	s.write((&client.PatchOptions{}).ApplyOptions(options).DryRun, "patch "+o.GetName()+" "+string(data))
	return err
}

func (s *fakeCluster) write(dryRun []string, what string) {
	if isStored(dryRun) {
		s.stored++
	} else {
		what = "try to " + what
	}
	s.asked = append(s.asked, what)
}

// answerOf serves one request with a fakeCluster.
func answerOf(s *fakeCluster, r *http.Request, change ...func(*Options)) (*httptest.ResponseRecorder, *API) {
	o := Options{Client: s, Namespace: namespace, Blueprints: "/nowhere", Clock: clock.RealClock{}, Log: logr.Discard()}
	for _, alter := range change {
		alter(&o)
	}
	api, w := New(o), httptest.NewRecorder()
	api.Handler().ServeHTTP(w, r)
	return w, api
}

// only allows everyone one verb.
type only string

func (only) Known(string) (authenticationv1.UserInfo, bool) { return authenticationv1.UserInfo{}, true }

func (only) Authenticate(context.Context, string) (authenticationv1.UserInfo, error) {
	return authenticationv1.UserInfo{}, nil
}

func (o only) Authorize(_ context.Context, _ authenticationv1.UserInfo, right authorizationv1.ResourceAttributes) error {
	if right.Verb != string(o) {
		return request.Refuse(http.StatusForbidden, "cannot %s", right.Verb)
	}
	return nil
}
