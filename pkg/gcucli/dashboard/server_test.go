package dashboard

import (
	"bufio"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcucli/display"
)

// fleet is a Source.
type fleet struct {
	mu        sync.Mutex
	resources []Resource
	err, lost error
	denied    []Verb
	done      []Action
	changed   chan struct{}
}

func (f *fleet) Read(context.Context) ([]Resource, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.resources), f.err
}

func (f *fleet) Reach(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

func (f *fleet) Detail(_ context.Context, node string) (Detail, error) {
	at := func(minute int) *metav1.Time {
		return ptr.To(metav1.NewTime(time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC)))
	}
	upgrade := &topsv1.NodeUpgrade{Status: topsv1.NodeUpgradeStatus{
		Operation: &topsv1.OperationStatus{Phase: "Failed", Reason: "DrainBlocked", Message: "PodDisruptionBudget ml/train: pod ml/train-0",
			Tasks: []topsv1.OperationTask{{Name: "n2_driver_verify", State: "Failed", StartTime: at(4), EndTime: at(5)}}},
		Requests: []topsv1.UpgradeRequest{{ID: "1", RequestTime: *at(6), Pod: topsv1.NamespacedRef{Namespace: "default", Name: "asked"}, Revision: "h2"}},
		Tasks:    []topsv1.UpgradeTask{{RequestID: "1", State: topsv1.TaskWaiting, Reason: "Paused", Message: "resume it"}}}}
	switch node {
	case "n1":
		upgrade.Annotations = map[string]string{topsv1.AnnotationHold: ""}
	case "n3":
		upgrade.Status.Agent = &topsv1.AgentStatus{Hold: &topsv1.NodeHold{}}
	}
	return Detail{Upgrade: upgrade, Events: []Event{{"1", "A", "first"}, {"2", "B", "<b>second</b>\u202e\x1b[2J"}}}, nil
}

func (f *fleet) Changed() <-chan struct{} { return f.changed }

func (f *fleet) May(_ context.Context, verb Verb) bool { return !slices.Contains(f.denied, verb) }

func (f *fleet) DryRun(_ context.Context, a Action) (DryRun, error) {
	waits := 3
	w := DryRun{Seen: "r2", Says: "wave main is approved\u202e\n", Revision: "r2", Images: []string{"driver:2"}, Nodes: &waits, Names: "n2, n3, n4"}
	if a.Target == "refused" {
		return w, errors.New("admission webhook \"no\" denied the request\u202e")
	}
	return w, nil
}

func (f *fleet) Do(_ context.Context, a Action) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.done = append(f.done, a)
	if a.Target == "refused" {
		return "", errors.New("it is refused\u202e")
	}
	return "it is done\u202e", nil
}

// change changes what is read next.
func (f *fleet) change(do func(f *fleet)) {
	f.mu.Lock()
	do(f)
	f.mu.Unlock()
	f.changed <- struct{}{}
}

func rolling() Resource {
	return Resource{
		Status: display.Status{Name: "my-gr", Outcome: display.Outcome{State: display.Working, Message: "<script>alert(1)</script>"},
			Rollout: &display.Rollout{MaxUnavailable: 2, Unavailable: 1, ETASeconds: 5400, Nodes: display.Counts{Total: 4, Updated: 1, Failed: 1, Pending: 2}, Paused: false,
				Waiting: []display.WaitingFor{{Reason: "BudgetExhausted", Nodes: 2, Message: "1 of 2 unavailable", Do: "repair n2"}}}},
		Nodes: []display.Node{{Name: "n1", State: "updated"}, {Name: "n2", State: "failed", Reason: "OperationFailed", Stuck: true,
			Operation: &display.Operation{Task: "n2_driver_verify", Reason: "VerifyFailed", KeptCordoned: true}}, {Name: "n3", State: "held", Reason: "NodeHeld"}, {Name: "n4", State: "pending"}},
		Zones: map[string]string{"n1": "zone-a", "n2": "zone-b", "n3": "zone-b"},
		Waves: []display.Wave{{Name: "canary", State: display.WaveComplete, Total: 1, Updated: 1}, {Name: "main", State: display.WaveAwaitsApproval, Awaits: "main/b", Total: 3}},
	}
}

// browser is a client with the cookie of a served page.
type browser struct {
	t    *testing.T
	http *http.Client
	url  string
}

// serve serves a source until the end of the test.
func serve(t *testing.T, f *fleet) browser {
	t.Helper()
	f.changed = make(chan struct{}, 1)
	s := New(f, netip.MustParseAddr("127.0.0.1"), clock.RealClock{})
	s.read(t.Context())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	server := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		stop()
		<-ended
	})
	jar, err := cookiejar.New(nil)
	check(t, err)
	b := browser{t, &http.Client{Jar: jar}, server.URL}
	if code, _ := b.get("/"); code != http.StatusUnauthorized {
		t.Fatalf("without the token: %d", code)
	}
	if code, _ := b.get("/?token=wrong"); code != http.StatusUnauthorized {
		t.Fatalf("with a wrong token: %d", code)
	}
	if code, page := b.get(s.Path()); code != http.StatusOK || strings.Contains(page, s.token) {
		t.Fatalf("with the token: %d, which the page must not contain", code)
	}
	return b
}

func (b browser) send(method, path string, body io.Reader, change func(*http.Request)) (int, string) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(b.t.Context(), method, b.url+path, body)
	check(b.t, err)
	if body != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	change(request)
	response, err := b.http.Do(request)
	check(b.t, err)
	defer func() { check(b.t, response.Body.Close()) }()
	text, err := io.ReadAll(response.Body)
	check(b.t, err)
	return response.StatusCode, string(text)
}

func (b browser) get(path string) (int, string) {
	b.t.Helper()
	return b.send(http.MethodGet, path, nil, func(*http.Request) {})
}

func (b browser) post(form string, change func(*http.Request)) (int, string) {
	b.t.Helper()
	return b.send(http.MethodPost, "/do", strings.NewReader(form), change)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestThePageShowsTheFleet(t *testing.T) {
	f := &fleet{resources: []Resource{rolling()}}
	b := serve(t, f)
	_, page := b.get("/")
	for _, want := range []string{"zone-a", "zone-b", "no zone", `class="cell failed stuck"`, `aria-label="n2: failed (OperationFailed), stuck">X!<`, `role="img" aria-label="1 updated, 2 pending, 1 failed"`, `href="#after-my-gr"`, `data-verb="approve" data-gr="my-gr" data-target="main/b"`,
		`<aside id="detail" aria-labelledby="node-name"`, `<dialog id="ask" aria-labelledby="ask-title">`, `<h2 id="ask-title">`, `<progress aria-hidden="true"`,
		`data-verb="pause"`, `data-verb="resume"`, "1 of 4 updated · 1 unavailable, at most 2 · time left: 90m", `<td lang="en">1 of 2 unavailable</td><td lang="en">repair n2</td>`, "&lt;script&gt;"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page, "<script>alert") || strings.Contains(page, `data-target="canary"`) {
		t.Errorf("the page has a script of the cluster, or approves a wave that does not wait:\n%s", page)
	}
	if _, chinese := b.get("/?lang=zh"); !strings.Contains(chinese, `aria-label="n2: 失败 (节点操作失败), 停滞"`) || !strings.Contains(chinese, `<td><span title="AwaitingApproval">等待批准</span></td>`) || !strings.Contains(chinese, `<p lang="en">&lt;script&gt;`) || !strings.Contains(chinese, `lang="zh"`) {
		t.Error("the page is not in Chinese")
	}
	_, node := b.get("/node?gr=my-gr&name=n2")
	for _, want := range []string{`<h2 id="node-name">n2 <span class="cell failed" aria-hidden="true">X!</span> failed`, "n2_driver_verify", "<td>2026-01-02 03:04:00 UTC</td><td>2026-01-02 03:05:00 UTC</td>", "DrainBlocked", "PodDisruptionBudget ml/train: pod ml/train-0",
		`2026-01-02 03:06:00 UTC default/asked · h2 · <span>Waiting</span> · <span>Paused</span>: <span lang="en">resume it</span>`, `data-verb="retry" data-gr="my-gr" data-target="n2_driver_verify"`, `data-verb="hold"`, "&lt;b&gt;second"} {
		if !strings.Contains(node, want) {
			t.Errorf("the node lacks %s:\n%s", want, node)
		}
	}
	if strings.ContainsAny(node, "\u202e\x1b") || !strings.Contains(node, `\u202e\u001b[2J`) {
		t.Errorf("the control characters of an event are not escaped: %q", node)
	}
	if strings.Index(node, "second") > strings.Index(node, "first") {
		t.Error("the newest event is not the first")
	}
	if _, held := b.get("/node?gr=my-gr&name=n1"); !strings.Contains(held, `data-verb="release"`) || strings.Contains(held, `data-verb="hold"`) {
		t.Error("a node held by an administrator is to be released, not held, although it is updated")
	}
	if _, held := b.get("/node?gr=my-gr&name=n3"); strings.Contains(held, `data-verb="release"`) || !strings.Contains(held, `data-verb="hold"`) {
		t.Error("a node that is held locally only is not to be released from here")
	}
	if code, _ := b.get("/node?gr=my-gr&name=n9"); code != http.StatusNotFound {
		t.Errorf("a node that is not there: %d", code)
	}
}

func TestButtonsThatMayNotBeUsedAreNotShown(t *testing.T) {
	b := serve(t, &fleet{resources: []Resource{rolling()}, denied: Verbs})
	_, page := b.get("/")
	_, node := b.get("/node?gr=my-gr&name=n2")
	if strings.Contains(page+node, "data-verb") {
		t.Error("there are buttons")
	}
}

// TestTwoDashboards: a browser sends the cookies of a host to all of its ports.
func TestTwoDashboards(t *testing.T) {
	first, second := serve(t, &fleet{}), serve(t, &fleet{})
	at, err := url.Parse(second.url)
	check(t, err)
	second.http.Jar.SetCookies(at, first.http.Jar.Cookies(at))
	if code, _ := second.get("/"); code != http.StatusOK {
		t.Errorf("after another dashboard was opened: %d", code)
	}
}

func TestActions(t *testing.T) {
	f := &fleet{resources: []Resource{rolling()}}
	b := serve(t, f)
	none := func(*http.Request) {}
	for _, tt := range []struct {
		name, form string
		change     func(*http.Request)
		code       int
		says       string
	}{
		{"what is asked is done", "verb=hold&gr=my-gr&target=n1&seen=r2", none, http.StatusOK, `it is done\u202e`},
		{"a refusal is reported", "verb=approve&gr=my-gr&target=refused&seen=r2", none, http.StatusConflict, `it is refused\u202e`},
		{"what was not shown is not done", "verb=hold&gr=my-gr&target=n1", none, http.StatusBadRequest, "GET /dry-run"},
		{"an unknown verb", "verb=delete&gr=my-gr&seen=r2", none, http.StatusBadRequest, `no action "delete"`},
		{"a large body", "verb=hold&target=" + strings.Repeat("x", bodyLimit), none, http.StatusBadRequest, "too large"},
		{"another origin", "verb=pause&gr=my-gr", func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, http.StatusForbidden, "cross-origin"},
		{"another name for this address", "verb=pause&gr=my-gr", func(r *http.Request) { r.Host = "evil.example" }, http.StatusMisdirectedRequest, "not called"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if code, says := b.post(tt.form, tt.change); code != tt.code || !strings.Contains(says, tt.says) {
				t.Errorf("%d %q, want %d %q", code, says, tt.code, tt.says)
			}
		})
	}
	want := []Action{{Hold, "my-gr", "n1", "r2"}, {Approve, "my-gr", "refused", "r2"}}
	if f.mu.Lock(); !slices.Equal(f.done, want) {
		t.Errorf("done was %v, want %v", f.done, want)
	}
	f.mu.Unlock()
}

func TestThePageIsSentAgainWhenItHasChanged(t *testing.T) {
	f := &fleet{resources: []Resource{rolling()}}
	b := serve(t, f)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/events", nil)
	check(t, err)
	response, err := b.http.Do(request)
	check(t, err)
	defer func() { check(t, response.Body.Close()) }()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	// shows reads events until one contains a text.
	shows := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "data: ") && strings.Contains(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("no event shows %q: %v", want, lines.Err())
	}
	shows("1 of 4 updated")
	f.change(func(f *fleet) { f.resources[0].Status.Rollout.Nodes.Updated = 3 })
	shows("3 of 4 updated")
	f.change(func(f *fleet) { f.err = errors.New("the API server is away") })
	shows("the API server is away")
	f.change(func(f *fleet) { f.err = nil })
	shows("3 of 4 updated")
}

// TestALostClusterIsSaid: although nothing changes, and what is cached can still be read.
func TestALostClusterIsSaid(t *testing.T) {
	f := &fleet{resources: []Resource{rolling()}, changed: make(chan struct{})}
	now := clocktesting.NewFakeClock(time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC))
	s := New(f, netip.MustParseAddr("127.0.0.1"), now)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-ended })
	// shows lets time pass until the page is as wanted.
	shows := func(what string, is func(pageData) bool) pageData {
		t.Helper()
		for ctx.Err() == nil {
			if v, _ := s.pageData(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)); is(v) {
				return v
			}
			now.Step(time.Second)
			time.Sleep(time.Millisecond) // lets Run go on
		}
		t.Fatalf("the page never shows %s", what)
		return pageData{}
	}
	shows("the fleet", func(v pageData) bool { return v.Error == "" && len(v.Resources) == 1 })
	f.mu.Lock()
	f.lost = errors.New("connection refused")
	f.mu.Unlock()
	lost := shows("the error", func(v pageData) bool { return v.Error == "connection refused" })
	if len(lost.Resources) != 1 || lost.At == clockOf(now.Now()) {
		t.Errorf("without the cluster the page has %d grs, as of %s", len(lost.Resources), lost.At)
	}
	f.mu.Lock()
	f.lost = nil
	f.mu.Unlock()
	shows("the fleet again", func(v pageData) bool { return v.Error == "" && v.At > lost.At })
}

// TestASilentServerSendsHeartbeats: nothing is read and nothing changes.
func TestASilentServerSendsHeartbeats(t *testing.T) {
	now := clocktesting.NewFakeClock(time.Date(2024, 1, 1, 12, 0, 0, 0, time.UTC))
	s := New(&fleet{}, netip.MustParseAddr("127.0.0.1"), now)
	s.read(t.Context())
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	reader, writer := io.Pipe()
	go func() {
		s.events(piped{httptest.NewRecorder(), writer}, httptest.NewRequestWithContext(ctx, http.MethodGet, "/events", nil))
		_ = writer.Close() // never fails
	}()
	beats := 0
	for lines := bufio.NewScanner(reader); beats < 3 && lines.Scan(); {
		if lines.Text() == "data: 12:00:00" {
			beats++
			go func() {
				for ctx.Err() == nil && !now.HasWaiters() {
					time.Sleep(time.Millisecond)
				}
				now.Step(heartbeat)
			}()
		}
	}
	if beats < 3 {
		t.Errorf("%d heartbeats, want one every %s", beats, heartbeat)
	}
	stop()
	_ = reader.Close() // never fails
}

// piped is a response that is read while it is written.
type piped struct {
	*httptest.ResponseRecorder
	body io.Writer
}

func (p piped) Write(b []byte) (int, error) { return p.body.Write(b) }

func (p piped) WriteString(s string) (int, error) { return io.WriteString(p.body, s) }

func TestEveryTextIsInEveryLanguage(t *testing.T) {
	for _, language := range languages {
		if got, want := slices.Sorted(maps.Keys(texts[language])), slices.Sorted(maps.Keys(texts[languages[0]])); !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", language, got, want)
		}
	}
	page, err := files.ReadFile("page.html")
	check(t, err)
	for _, part := range strings.Split(string(page), `.Of "`)[1:] {
		key, _, _ := strings.Cut(part, `"`)
		if texts["en"].Of(key) == key && texts["zh"].Of(key) == key {
			t.Errorf("there is no text for %q", key)
		}
	}
	w := texts["en"]
	for _, verb := range Verbs {
		if w[string(verb)+"?"] == "" {
			t.Errorf("nothing says what %s would do", verb)
		}
	}
}
