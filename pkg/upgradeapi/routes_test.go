package upgradeapi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
)

// raw sends bytes over a new connection and returns the given number of responses.
func (d *testServer) raw(text string, answers int) []answer {
	d.t.Helper()
	connection, err := net.Dial("tcp", strings.TrimPrefix(d.url, "http://"))
	d.must(err)
	defer connection.Close()
	d.must(connection.SetDeadline(time.Now().Add(patience)))
	_, err = io.WriteString(connection, text)
	d.must(err)
	var got []answer
	reader := bufio.NewReader(connection)
	for range answers {
		response, err := http.ReadResponse(reader, nil)
		d.must(err)
		body, err := io.ReadAll(response.Body)
		d.must(errors.Join(err, response.Body.Close()))
		got = append(got, answer{status: response.StatusCode, header: response.Header, body: string(body)})
	}
	return got
}

func TestContractPathsAndMethods(t *testing.T) {
	d := newTestServer(t)
	gr := d.create("asked")
	d.daemonSet(gr, "asked-driver", "driver")
	const path = "/gum/v1/gr/asked"
	t.Run("contract 62: every path may have a slash at the end, with a query too", func(t *testing.T) {
		for _, path := range []string{"/gum/v1/gr", path, path + "/resource/driver", path + "/revisions"} {
			for _, end := range []string{"", "/", "?limit=1", "/?limit=1"} {
				d.succeeds(http.MethodGet, path+end, "")
			}
		}
		for _, end := range []string{"", "/", "?x", "/?x"} {
			if got := d.send(http.MethodGet, "/gum/v1/openapi.yaml"+end, ""); got.status != http.StatusOK || got.body != string(Document) || got.header.Get("Content-Type") != "application/yaml" {
				t.Errorf("openapi.yaml%s: %d %s", end, got.status, got.header)
			}
		}
		d.succeeds(http.MethodPut, path+"/?dryRun=true", `{"spec": {}}`)
		d.succeeds(http.MethodDelete, path+"/?dryRun=true", "")
	})
	t.Run("contract 63: paths are taken as they are written", func(t *testing.T) {
		for _, path := range []string{"/GUM/v1/gr", "/gum/v1/GR", "/gum/v1/gr/asked//", "//gum/v1/gr", "/gum/v1/gr/../gr", path + "/Rollout", path + "/resource/driver/x"} {
			d.fails(http.MethodGet, path, "", http.StatusNotFound, "no such path")
		}
		d.fails(http.MethodGet, "/gum/v1/gr/ASKED", "", http.StatusNotFound, `gcuresources.topsops.enflame.com "ASKED" not found`)
	})
	t.Run("contract 63: HEAD is GET without the content, OPTIONS is none of ours", func(t *testing.T) {
		response, err := http.Head(d.url + path)
		d.must(err)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "application/json" {
			t.Errorf("got %v", response)
		}
		if got := d.fails(http.MethodOptions, path, "", http.StatusMethodNotAllowed, "use DELETE, GET, HEAD, PUT"); got.header.Get("Allow") != "DELETE, GET, HEAD, PUT" {
			t.Errorf("Allow is %q", got.header.Get("Allow"))
		}
	})
	t.Run("contract 70: any content type will do, and none", func(t *testing.T) {
		for _, kind := range []string{"application/x-www-form-urlencoded", "application/json", "multipart/form-data", "text/plain; charset=utf-16", "", "x"} {
			got := d.send(http.MethodPut, path+"?dryRun=true", `{"spec": {}}`, "Content-Type", kind)
			if got.status != http.StatusOK {
				t.Errorf("%q: %d %s", kind, got.status, got.body)
			}
		}
	})
	t.Run("contract 70: what follows the JSON is refused, a large spec is not", func(t *testing.T) {
		for _, body := range []string{`{"spec": {}} x`, `{"spec": {}}{}`, `{"spec": {}},`, "{\"spec\": {}}\x00", "\ufeff{\"spec\": {}}", "null", "\xff"} {
			d.fails(http.MethodPut, path+"?dryRun=true", body, http.StatusBadRequest, "the body has to")
		}
		d.succeeds(http.MethodPut, path+"?dryRun=true", `{"spec": {"driver": {"env": [{"name": "A", "value": "`+strings.Repeat("x", 200<<10)+`"}]}}}`)
	})
	t.Run("contract 79: requests that are sent in a row are answered in their order", func(t *testing.T) {
		get := "GET %s HTTP/1.1\r\nHost: a\r\nX-Request-Id: %s\r\n\r\n"
		got := d.raw(fmt.Sprintf(get+get+get, path, "one", "/nowhere", "two", path, "three"), 3)
		for i, id := range []string{"one", "two", "three"} {
			if got[i].header.Get("X-Request-Id") != id || got[i].status != []int{200, 404, 200}[i] {
				t.Errorf("answer %d is %d of %v", i, got[i].status, got[i].header)
			}
		}
	})
}

func TestEveryRouteOfTheDocumentIsServed(t *testing.T) {
	document, err := openapi3.NewLoader().LoadFromData(Document)
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range document.Paths.Map() {
		path = "/gum/v1" + strings.NewReplacer("{name}", "gr", "{kind}", "driver", "{plan}", "night").Replace(path)
		for method := range item.Operations() {
			w, _ := answerOf(&fakeCluster{}, httptest.NewRequest(method, path, http.NoBody))
			if w.Code == http.StatusMethodNotAllowed || strings.Contains(w.Body.String(), "no such path") {
				t.Errorf("%s %s is answered with %d: %s", method, path, w.Code, w.Body)
			}
		}
	}
}
