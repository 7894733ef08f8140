package upgradeapi

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
