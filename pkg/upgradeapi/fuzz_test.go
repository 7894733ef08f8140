package upgradeapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/topsops/gcu-operator/pkg/upgradeapi/request"
)

// FuzzRoutes checks that every response is an envelope, none is a redirect, and only
// requests for a change make one.
func FuzzRoutes(f *testing.F) {
	for _, path := range []string{"/", "/gum/v1/gr", "/gum/v1/gr/", "/gum/v1/gr/gr", "/gum/v1/gr/gr/?dryRun=true", "/gum/v1/gr/gr?dryRun=1", "/gum/v1/gr/%2e%2e", "/gum/v1/gr/../gr",
		"/gum/v1/gr/gr/resource/driver", "/gum/v1/gr/gr/resource/%2fdriver", "/gum/v1/gr/gr/rollout", "/gum/v1/gr/gr/revisions/", "/gum/v1/gr/gr/rollback", "/gum/v1/gr/gr/pause",
		"/gum/v1/gr/gr/resume?x", "/gum/v1/openapi.yaml", "//gum/v1/gr", "/gum/v1/gr/%zz", "/gum/v1/gr/%00", "*", "/gum/v1/gr/gr?%zz", "/gum/v1/gr/gr?dryRun=true;", "/gum/v1/gr/gr/pause?dryRun=true%"} {
		for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "POST", "OPTIONS", "get", ""} {
			f.Add(method, path, "ticket-1")
		}
	}
	for _, id := range []string{"", "a b", "a\nb", strings.Repeat("a", 65), "é"} {
		f.Add(http.MethodGet, "/gum/v1/gr", id)
	}
	f.Fuzz(func(t *testing.T, method, path, id string) {
		target, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		body := `{"spec": {}}`
		if method != http.MethodPut {
			body = ""
		}
		r := &http.Request{Method: method, URL: target, Header: http.Header{"X-Request-Id": {id}}, Body: http.NoBody}
		if body != "" {
			r = httptest.NewRequest(http.MethodPut, "/", strings.NewReader(body))
			r.URL, r.Header = target, http.Header{"X-Request-Id": {id}}
		}
		s := &fakeCluster{}
		w, _ := answerOf(s, r)
		if !slices.Contains([]int{200, 400, 404, 405, 409}, w.Code) {
			t.Errorf("%q %q is answered with %d: %s", method, path, w.Code, w.Body)
		}
		if got := w.Header().Get("X-Request-Id"); !requestID.MatchString(got) || requestID.MatchString(id) && got != id {
			t.Errorf("%q %q with id %q has id %q", method, path, id, got)
		}
		if w.Header().Get("Content-Type") != "application/yaml" {
			envelopeIn(t, w)
		}
		changes := method == http.MethodPut || method == http.MethodDelete || method == http.MethodPost
		dryRun := target.Query().Get("dryRun") == "true" || strings.Contains(target.RawQuery, "dryRun=true") // Query leaves out what it cannot read
		if s.stored > 0 && (!changes || w.Code != http.StatusOK || dryRun) {
			t.Errorf("%q %q wrote %d times and is answered with %d", method, path, s.stored, w.Code)
		}
	})
}

// FuzzBodies checks that only bodies that openapi.yaml allows change something, and that
// specs are not logged.
func FuzzBodies(f *testing.F) {
	for _, body := range []string{"", "{}", "null", "[]", " \n", "\xff", `{"spec": {}}`, `{"spec": {}}{}`, `{"spec": {"driver": {"env": [{"name": "A", "value": "hunter2"}]}}, "mode": "recreate"}`,
		`{"spec": {}, "spec": {}}`, `{"file": "gr.json"}`, `{"file": "../gr.json"}`, `{"file": "gr.json", "spec": null}`, `{"policy": "background"}`, `{"policy": "orphan"}`, `{"policy": null}`,
		`{"spec": {}, "nodes": null}`, `{"spec": {}, "mode": null}`, `{"to": null}`, `{"spec": {"driver": null}}`,
		`{"to": "previous"}`, `{"to": ""}`, `{"Spec": {}}`, `{"spec": {}, "x": "hunter2"}`, `file=gr.json`} {
		for _, method := range []string{http.MethodPut, http.MethodDelete, http.MethodPost} {
			f.Add(method, body)
		}
	}
	document, err := openapi3.NewLoader().LoadFromData(Document)
	if err != nil {
		f.Fatal(err)
	}
	bodies := map[string]string{http.MethodPut: "UpgradeBody", http.MethodDelete: "DeleteBody", http.MethodPost: "RollbackBody"}
	paths := map[string]string{http.MethodPost: "/rollback"}
	f.Fuzz(func(t *testing.T, method, body string) {
		if bodies[method] == "" || strings.Contains(body, "foreground") { // a recorder cannot wait
			return
		}
		s := &fakeCluster{}
		w, _ := answerOf(s, httptest.NewRequest(method, "/gum/v1/gr/gr"+paths[method], strings.NewReader(body)))
		e := envelopeIn(t, w)
		var fields map[string]any
		readable := json.Unmarshal([]byte(body), &fields) == nil
		if s.stored > 0 && strings.TrimSpace(body) != "" {
			if err := document.Components.Schemas[bodies[method]].Value.VisitJSON(fields); !readable || fields == nil || err != nil {
				t.Errorf("%s %q is carried out and not documented (%v): %s", method, body, err, w.Body)
			}
		}
		if s.stored > 0 && e.Result != ResultSuccess {
			t.Errorf("%s %q wrote %d times: %s", method, body, s.stored, w.Body)
		}
		text := request.Loggable([]byte(body))
		if len(text) > request.MaxLoggedBytes {
			t.Errorf("%d bytes are logged of %q", len(text), body)
		}
		for key, value := range fields {
			secret, _ := json.Marshal(value)
			if !slices.Contains([]string{"file", "mode", "policy", "to", "nodes", "components", "all"}, key) && len(secret) > 20 && strings.Contains(text, string(secret)) {
				t.Errorf("%q is logged of %q", secret, body)
			}
		}
	})
}
