package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// clusterOf has grs, each with the finalizer of the operator, and says which calls fail.
func clusterOf(t *testing.T, calls interceptor.Funcs, names ...string) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := topsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, name := range names {
		builder.WithObjects(&topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{topsv1.Finalizer}},
			Status: topsv1.GcuResourceStatus{Phase: topsv1.PhaseRunning}})
	}
	return interceptor.NewClient(builder.Build(), calls)
}

func TestAGcuResourceThatIsThereIsNotChanged(t *testing.T) {
	c := clusterOf(t, interceptor.Funcs{}, "gr")
	var out strings.Builder
	asked := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gr"}, Spec: topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}}}
	if err := createGR(t.Context(), c, asked, &out); err != nil {
		t.Fatal(err)
	}
	var gr topsv1.GcuResource
	if err := c.Get(t.Context(), client.ObjectKey{Name: "gr"}, &gr); err != nil || gr.Spec.Driver != nil {
		t.Errorf("the gr that was there deploys %v, %v", gr.Spec.Driver, err)
	}
	if want := "GcuResource gr exists already and was not changed\n"; out.String() != want {
		t.Errorf("it said %q, want %q", out.String(), want)
	}
}

func TestAGcuResourceIsCreatedOnceItsKindIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := clusterOf(t, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if asked++; asked < 3 {
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "GcuResource"}}
			}
			return c.Create(ctx, object, options...)
		}})
		if err := createGR(t.Context(), c, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gr"}}, io.Discard); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "gr"}, &topsv1.GcuResource{}); err != nil {
			t.Error(err)
		}
	})
}

func TestGcuResourcesAreRemovedAndWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// with finalizer orphan, a deletion that names no policy orphans what the gr owns
		c := clusterOf(t, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, gr client.Object, options ...client.DeleteOption) error {
			if policy := (&client.DeleteOptions{}).ApplyOptions(options).PropagationPolicy; policy == nil || *policy != metav1.DeletePropagationBackground {
				t.Errorf("gr %s is deleted with policy %v", gr.GetName(), policy)
			}
			return c.Delete(ctx, gr, options...)
		}}, "a", "b")
		begin := time.Now()
		time.AfterFunc(10*time.Second, func() { // the manager
			for _, name := range []string{"a", "b"} {
				var gr topsv1.GcuResource
				if err := c.Get(t.Context(), client.ObjectKey{Name: name}, &gr); err != nil || gr.DeletionTimestamp == nil {
					t.Errorf("gr %s is being deleted since %v, %v", name, gr.DeletionTimestamp, err)
				}
				gr.Finalizers = nil
				if err := c.Update(t.Context(), &gr); err != nil {
					t.Error(err)
				}
			}
		})
		if err := removeGRs(t.Context(), c, io.Discard); err != nil {
			t.Fatal(err)
		}
		if time.Since(begin) < 10*time.Second {
			t.Error("it did not wait until the grs were gone")
		}
	})
}

// A gr that the REST API is about to create again would be created when nothing is left that removes its components.
func TestAGcuResourceThatIsCreatedAgainIsRemovedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clusterOf(t, interceptor.Funcs{})
		stored := &topsv1.GcuResourceRecreation{ObjectMeta: metav1.ObjectMeta{Name: "gr"}, Spec: topsv1.GcuResourceRecreationSpec{Replaces: "old"}}
		finished := &topsv1.GcuResourceRecreation{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: topsv1.GcuResourceRecreationSpec{Replaces: "older", Created: "new"}}
		for _, object := range []client.Object{stored, finished} {
			if err := c.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
		created := false
		time.AfterFunc(10*time.Second, func() { // the manager
			if err := c.Create(t.Context(), &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gr"}}); err != nil {
				t.Error(err)
			}
			stored.Spec.Created = "new"
			if err := c.Update(t.Context(), stored); err != nil {
				t.Error(err)
			}
			created = true
		})
		if err := removeGRs(t.Context(), c, io.Discard); err != nil {
			t.Fatal(err)
		}
		if err := c.Get(t.Context(), client.ObjectKey{Name: "gr"}, &topsv1.GcuResource{}); !created || client.IgnoreNotFound(err) != nil || err == nil {
			t.Errorf("it returned with the gr created: %t, reading it: %v", created, err)
		}
	})
}

// The author of a recreation may lose the right to complete it: nobody creates its gr then.
func TestARecreationThatDoesNotGoOnIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clusterOf(t, interceptor.Funcs{}, "going")
		stored := &topsv1.GcuResourceRecreation{ObjectMeta: metav1.ObjectMeta{Name: "gr"}}
		if err := c.Create(t.Context(), stored); err != nil {
			t.Fatal(err)
		}
		begin, removed := time.Now(), 3*time.Minute
		time.AfterFunc(removed, func() { // the manager
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
				t.Errorf("it is removed while a gr is there, of which it may be: %v", err)
			}
			var gr topsv1.GcuResource
			if err := c.Get(t.Context(), client.ObjectKey{Name: "going"}, &gr); err != nil {
				t.Error(err)
			}
			gr.Finalizers = nil
			if err := c.Update(t.Context(), &gr); err != nil {
				t.Error(err)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var out strings.Builder
		if err := removeGRs(ctx, c, &out); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begin); took < removed+abandonedAfter || took > removed+abandonedAfter+10*time.Second {
			t.Errorf("it ended after %s", took)
		}
		if says := "Deleting GcuResourceRecreation gr: GcuResource gr was not created for 1m0s"; !strings.Contains(out.String(), says) {
			t.Errorf("it said %q, want %q", out.String(), says)
		}
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); !apierrors.IsNotFound(err) {
			t.Errorf("the recreation is left: %v", err)
		}
	})
}

func TestAGcuResourceThatIsToBeCreatedAgainIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clusterOf(t, interceptor.Funcs{}, "a")
		if err := c.Create(t.Context(), &topsv1.GcuResourceRecreation{ObjectMeta: metav1.ObjectMeta{Name: "b"}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := removeGRs(ctx, c, io.Discard)
		if err == nil || !strings.HasPrefix(err.Error(), "timed out waiting for the deletion of a (Running), b (to be created again). The manager") {
			t.Errorf("got %v", err)
		}
	})
}

// A webhook may deny with any code, also with that of a gr that is gone.
func TestADeletionThatIsDeniedIsReported(t *testing.T) {
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: `admission webhook "w" denied the request: keep it`}}
	c := clusterOf(t, interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return denied }}, "gr")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := removeGRs(ctx, c, io.Discard); err == nil || !strings.Contains(err.Error(), "deleting GcuResource gr: "+denied.ErrStatus.Message) {
		t.Errorf("got %v", err)
	}
}

// A webhook may deny with any code, also with those of a gr that exists, and of a kind that is not served.
func TestACreationThatIsDeniedIsReported(t *testing.T) {
	for code, reason := range map[int32]metav1.StatusReason{http.StatusConflict: metav1.StatusReasonAlreadyExists, http.StatusNotFound: metav1.StatusReasonNotFound} {
		synctest.Test(t, func(t *testing.T) {
			denied, asked := &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: `admission webhook "w" denied the request: no driver`}}, 0
			c := clusterOf(t, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				asked++
				return denied
			}})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var out strings.Builder
			err := createGR(ctx, c, &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gr"}}, &out)
			if err == nil || !strings.Contains(err.Error(), "creating GcuResource gr: "+denied.ErrStatus.Message) || out.Len() > 0 {
				t.Errorf("%s: got %v, and it said %q", reason, err, &out)
			}
			if asked != 1 {
				t.Errorf("%s: tried %d times", reason, asked)
			}
		})
	}
}

func TestGcuResourcesThatStayAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clusterOf(t, interceptor.Funcs{}, "b", "a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := removeGRs(ctx, c, io.Discard)
		if err == nil || !strings.HasPrefix(err.Error(), "timed out waiting for the deletion of a (Running), b (Running). The manager") {
			t.Errorf("got %v", err)
		}
	})
}

func TestWithoutTheKindThereIsNothingToRemove(t *testing.T) {
	c := clusterOf(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "GcuResource"}}
	}})
	if err := removeGRs(t.Context(), c, io.Discard); err != nil {
		t.Error(err)
	}
}
