package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/topsops/gcu-operator/pkg/foreign"
)

const (
	// pace is the least time between two readings of the cluster.
	pace = 300 * time.Millisecond
	// mayFor is for how long an answer of Source.May is kept.
	mayFor = time.Minute
	// heartbeat is the longest time without an event. script.js takes 40 s without one for a lost
	// connection.
	heartbeat = 15 * time.Second
)

// Server serves the page of a Source.
type Server struct {
	source Source
	clock  clock.WithTicker
	token  string
	hosts  func(string) bool

	link *Link
	// reviewed is when the permissions of the user were read last.
	reviewed time.Time

	mu sync.Mutex
	// resources are the result of the last read without an error, with its time; err is why reading failed since.
	resources []Resource
	at        time.Time
	err       error
	// next is closed when they have been read again.
	next chan struct{}
	may  verbs
}

// New returns a Server on an address. Run must run while it serves.
func New(source Source, bound netip.Addr, clock clock.WithTicker) *Server {
	return &Server{source: source, clock: clock, token: rand.Text(), hosts: foreign.Hosts(bound), link: NewLink(source.Reach), next: make(chan struct{})}
}

// Path returns the path, with the token, to open first.
func (s *Server) Path() string { return "/?token=" + s.token }

// Run reads the source when it has changed, and every reachEvery, until ctx is done.
func (s *Server) Run(ctx context.Context) {
	for {
		s.read(ctx)
		select {
		case <-ctx.Done():
			return
		case <-s.clock.After(pace):
		}
		select {
		case <-ctx.Done():
			return
		case <-s.source.Changed():
		case <-s.clock.After(reachEvery):
		}
	}
}

func (s *Server) read(ctx context.Context) {
	lost := s.link.Look(ctx, s.clock.Now())
	resources, err := s.source.Read(ctx)
	var may verbs
	if lost == nil {
		may = s.permissions(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(may) > 0 {
		s.may = may
	}
	if err == nil {
		s.resources, err = resources, lost
	}
	if s.err = err; err == nil {
		s.at = s.clock.Now()
	}
	close(s.next)
	s.next = make(chan struct{})
}

// permissions returns what the user may do; nil if they were read less than mayFor ago.
func (s *Server) permissions(ctx context.Context) verbs {
	if s.clock.Since(s.reviewed) <= mayFor {
		return nil
	}
	may := verbs{}
	for _, verb := range Verbs {
		may[verb] = s.source.May(ctx, verb)
	}
	s.reviewed = s.clock.Now()
	return may
}

// Handler returns the handler of all routes.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET /events", s.events)
	mux.HandleFunc("GET /node", s.node)
	acting := actions{s.source, s.resource}
	mux.HandleFunc("GET /dry-run", acting.dryRun)
	mux.HandleFunc("POST /do", acting.do)
	mux.Handle("GET /style.css", http.FileServerFS(files))
	mux.Handle("GET /script.js", http.FileServerFS(files))
	return s.guarded(http.NewCrossOriginProtection().Handler(mux))
}

// guarded rejects requests under a foreign name, and those without the token.
func (s *Server) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cache-Control", "no-store")
		if !s.hosts(r.Host) {
			fail(w, "this address is not called "+r.Host, http.StatusMisdirectedRequest)
			return
		}
		if given := r.URL.Query().Get("token"); r.URL.Path == "/" && s.knows(given) {
			http.SetCookie(w, &http.Cookie{Name: cookieFor(r), Value: given, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode}) //nolint:gosec // G124: loopback without TLS
			http.Redirect(w, r, "/", http.StatusSeeOther)
			return
		}
		if c, err := r.Cookie(cookieFor(r)); err != nil || !s.knows(c.Value) {
			http.Error(w, "open the address that kubectl gcu dashboard printed: it has the token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// cookieFor returns the name of the cookie that has the token. It contains the port, because browsers send
// the cookies of a host to all of its ports, and each may have a dashboard; the port is the browser's, which
// a tunnel may have changed.
func cookieFor(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host) // without a port it is that of the scheme
	return "gcu-dashboard-" + port
}

func (s *Server) knows(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) == 1
}

// pageData returns what the page shows now to a request, and a channel that is closed when that has
// changed.
func (s *Server) pageData(r *http.Request) (pageData, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := pageData{Words: wordsFor(r), By: r.URL.Query().Get("by"), At: clockOf(s.at)}
	if s.err != nil {
		p.Error = s.err.Error()
	}
	for _, resource := range s.resources {
		p.Resources = append(p.Resources, sectionOf(resource, s.may, p.By))
	}
	return p, s.next
}

func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	p, _ := s.pageData(r)
	render(w, "page", p)
}

// events sends the page each time it has changed, and the time of the last good reading at least every
// heartbeat.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	control, sent := http.NewResponseController(w), ""
	for {
		p, next := s.pageData(r)
		page, err := rendered("main", p)
		if err != nil {
			return
		}
		event := fmt.Sprintf("event: read\ndata: %s\n\n", p.At)
		if page != sent {
			data, err := json.Marshal(page)
			if err != nil {
				return
			}
			event += fmt.Sprintf("event: page\ndata: %s\n\n", data)
		}
		if _, err := io.WriteString(w, event); err != nil || control.Flush() != nil {
			return
		}
		sent = page
		select {
		case <-r.Context().Done():
			return
		case <-next:
		case <-s.clock.After(heartbeat):
		}
	}
}

func (s *Server) node(w http.ResponseWriter, r *http.Request) {
	name, gr := r.URL.Query().Get("name"), r.URL.Query().Get("gr")
	resource, may := s.resource(gr)
	detail, err := s.source.Detail(r.Context(), name)
	if err != nil {
		fail(w, err.Error(), http.StatusBadGateway)
		return
	}
	n, ok := nodeOf(resource, name, detail, may)
	if !ok {
		fail(w, fmt.Sprintf("gr %q has no node %q", gr, name), http.StatusNotFound)
		return
	}
	n.Words = wordsFor(r)
	render(w, "node", n)
}

// resource returns a gr as it was read last, an empty one if there is none of that name, and the verbs that
// the user may use.
func (s *Server) resource(gr string) (Resource, verbs) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.resources, func(r Resource) bool { return r.Status.Name == gr })
	if i < 0 {
		return Resource{}, s.may
	}
	return s.resources[i], s.may
}
