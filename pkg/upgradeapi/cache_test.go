package upgradeapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/apiserver"
)

// silent is a cache that a test can stop from following the API server.
type silent struct {
	client.Reader
	old map[string]*topsv1.GcuResource
}

func (s *silent) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if gr, ok := o.(*topsv1.GcuResource); ok && s.old[key.Name] != nil {
		s.old[key.Name].DeepCopyInto(gr)
		return nil
	}
	return s.Reader.Get(ctx, key, o, options...)
}

// newCache returns a cache that follows the API server.
func newCache(t *testing.T) cache.Cache {
	t.Helper()
	c, err := cache.New(apiserver.Shared(t).As(apiserver.Admin), cache.Options{Scheme: apiserver.Shared(t).Scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return c
}

// unset is a field without a meaning that API servers before Kubernetes 1.34 send in a template.
var unset = regexp.MustCompile(`(?m)^ *"creationTimestamp": null,\n`)

func TestTheCacheShowsWhatTheAPIServerSends(t *testing.T) {
	kept := newCache(t)
	live, cached := newTestServer(t), newTestServer(t, func(o *Options) { o.Cache = kept })
	gr := live.create("shown")
	live.runs("shown")
	live.daemonSet(gr, "shown-driver", "driver")
	for _, path := range []string{"/gum/v1/gr/shown", "/gum/v1/gr/shown/resource/driver", "/gum/v1/gr/shown/resource/gfd", "/gum/v1/gr/absent"} {
		want := live.send(http.MethodGet, path, "")
		shown := unset.ReplaceAllString(want.body, "")
		same := func() string {
			return cmp.Diff(shown, unset.ReplaceAllString(cached.send(http.MethodGet, path, "").body, ""))
		}
		cached.until(same)
		if diff := same(); diff != "" { // served from the encoded first response
			t.Errorf("a second time: %s", diff)
		}
	}
	gr = live.gr("shown")
	gr.Annotations = map[string]string{"example.com/is": "another <version>"}
	live.must(live.admin.Update(t.Context(), gr))
	changed := live.send(http.MethodGet, "/gum/v1/gr/shown", "")
	cached.until(func() string { return cmp.Diff(changed.body, cached.send(http.MethodGet, "/gum/v1/gr/shown", "").body) })
	asked := cached.api.cluster.Client
	cached.api.cluster.Client = nil // a call past the cache would end the test
	cached.succeeds(http.MethodGet, "/gum/v1/gr/shown", "")
	cached.succeeds(http.MethodGet, "/gum/v1/gr/shown/resource/driver", "")
	cached.api.cluster.Client = asked
}

func TestAWriterReadsItsWrites(t *testing.T) {
	behind := &silent{Reader: apiserver.Shared(t).Client(t, apiserver.Operator), old: map[string]*topsv1.GcuResource{}}
	d := newTestServer(t, func(o *Options) { o.Cache = behind })
	d.create("lagging")
	d.create("gone")
	for _, name := range []string{"lagging", "gone"} {
		behind.old[name] = d.gr(name)
	}
	asked := d.api.cluster.Client
	d.succeeds(http.MethodPut, "/gum/v1/gr/lagging?dryRun=true", `{"spec": {}}`)
	d.api.cluster.Client = nil // a dry run does not disable the cache
	d.succeeds(http.MethodGet, "/gum/v1/gr/lagging", "")
	d.api.cluster.Client = asked
	d.succeeds(http.MethodPut, "/gum/v1/gr/lagging", `{"spec": {"driver": {"version": "2"}}}`)
	if got := d.succeeds(http.MethodGet, "/gum/v1/gr/lagging", ""); !strings.Contains(got.body, `"generation": 2`) {
		t.Errorf("shown is %s", got.body)
	}
	later := d.sendLater(t.Context(), http.MethodDelete, "/gum/v1/gr/gone", `{"policy": "foreground"}`)
	d.goes("gone")
	if got := d.succeeds(http.MethodGet, "/gum/v1/gr/gone", "").object(t); got.GetDeletionTimestamp() == nil {
		t.Error("it is not shown that it goes")
	}
	d.letGo("gone")
	d.after(later)
	d.fails(http.MethodGet, "/gum/v1/gr/gone", "", http.StatusNotFound, `gcuresources.topsops.enflame.com "gone" not found`)
}

// A component that was renamed has two DaemonSets until the old one has left all nodes.
func TestTheDaemonSetThatStaysIsShown(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(topsv1.AddToScheme(scheme), appsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gr", UID: "uid-1"}}
	for _, tt := range []struct {
		name, want    string
		stays, leaves []string
	}{
		{"before it by name", "b", []string{"b"}, []string{"a"}},
		{"after it by name", "a", []string{"a"}, []string{"b"}},
		{"one that leaves, if there is no other", "a", nil, []string{"a"}},
		{"the first of two", "b", []string{"c", "b"}, []string{"a"}},
	} {
		builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(gr)
		for _, name := range append(slices.Clone(tt.stays), tt.leaves...) {
			ds := &appsv1.DaemonSet{ObjectMeta: ownedMeta(gr, name, "driver")}
			if slices.Contains(tt.leaves, name) {
				ds.Spec.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: topsv1.GateRemoved}}
			}
			builder.WithObjects(ds)
		}
		c := builder.Build()
		for _, cached := range []client.Reader{nil, c} {
			w, _ := answerOf(&fakeCluster{}, httptest.NewRequest(http.MethodGet, "/gum/v1/gr/gr/resource/driver", nil), func(o *Options) { o.Client, o.Cache = c, cached })
			if got := (answer{envelope: envelopeIn(t, w)}).object(t).GetName(); got != tt.want {
				t.Errorf("%s, with a cache %t: %s is shown, want %s", tt.name, cached != nil, got, tt.want)
			}
		}
	}
}

// A restored etcd gives out its resource versions again: another content may have the UID and the version of one that is lost.
func TestALostContentIsNotShown(t *testing.T) {
	o := newObjectCache(nil, clock.RealClock{})
	gr := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: "gr", UID: "uid-1", ResourceVersion: "7"}}
	var shown []string
	for _, version := range []string{"lost", "lost", "restored", "restored"} {
		gr = gr.DeepCopy()
		gr.Spec.Driver = &topsv1.BaseFields{Version: version}
		print, err := o.encode(gr, grKind)
		if err != nil || !strings.Contains(string(print), `"version": "`+version+`"`) {
			t.Errorf("%s: %v: %s", version, err, print)
		}
		shown = append(shown, fmt.Sprintf("%p", print))
	}
	if shown[0] != shown[1] || shown[2] != shown[3] || o.encoded.Len() != 1 {
		t.Errorf("one content is encoded again: %v, %d are kept", shown, o.encoded.Len())
	}
}
