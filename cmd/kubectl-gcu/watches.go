package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// watches are the requests by which caches follow the API server. When they break, the caches repeat them only
// after a pause that grows to half a minute; until then the caches are stale, although the API server
// answers other requests.
type watches struct {
	// resources are those that are to be watched, and changed hears of each watch that begins.
	resources []string
	changed   chan<- struct{}

	mu sync.Mutex
	// open has the last watch of each resource that goes on.
	open map[string]*watched
}

// behind returns an error that names the resources that are not watched; nil if there are none.
func (w *watches) behind() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	missing := slices.DeleteFunc(slices.Clone(w.resources), func(r string) bool { return w.open[r] != nil })
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("reconnecting: the API server answers, but recent changes are not read yet: %s", strings.Join(missing, ", "))
}

// around returns a RoundTripper that notes the watches of another.
func (w *watches) around(next http.RoundTripper) http.RoundTripper { return follower{w, next} }

type follower struct {
	*watches
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (f follower) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := f.next.RoundTrip(r)
	query := r.URL.Query()
	if err != nil || response.StatusCode != http.StatusOK || query.Get("watch") != "true" {
		return response, err
	}
	body := &watched{ReadCloser: response.Body, watches: f.watches, resource: path.Base(r.URL.Path), listing: query.Get("sendInitialEvents") == "true"}
	if !body.listing {
		body.begin()
	}
	response.Body = body
	return response, nil
}

// watched is the body of a watch.
type watched struct {
	io.ReadCloser
	*watches
	resource string
	// listing reports whether it still sends the objects that there were at its beginning; tail is what was
	// read last of them.
	listing bool
	tail    []byte
}

// listed is in the event after the last of those objects, in JSON and in protobuf.
var listed = []byte(metav1.InitialEventsAnnotationKey)

// Read implements io.Reader.
func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.listing {
		if b.tail = append(b.tail, p[:n]...); bytes.Contains(b.tail, listed) {
			b.listing, b.tail = false, nil
			b.begin()
		} else {
			b.tail = bytes.Clone(b.tail[max(0, len(b.tail)-len(listed)):])
		}
	}
	if err != nil {
		b.end()
	}
	return n, err
}

// Close implements io.Closer.
func (b *watched) Close() error {
	b.end()
	return b.ReadCloser.Close()
}

func (b *watched) begin() {
	b.mu.Lock()
	b.open[b.resource] = b
	b.mu.Unlock()
	notify(b.changed)
}

func (b *watched) end() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open[b.resource] == b {
		delete(b.open, b.resource)
	}
}
