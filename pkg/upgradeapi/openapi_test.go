package upgradeapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// openAPI reads and validates the document.
func (d *testServer) openAPI() {
	d.t.Helper()
	var err error
	if d.doc, err = openapi3.NewLoader().LoadFromData(Document); err != nil {
		d.t.Fatal(err)
	}
	if err := d.doc.Validate(context.Background()); err != nil {
		d.t.Fatal(err)
	}
	if d.book, err = gorillamux.NewRouter(d.doc); err != nil {
		d.t.Fatal(err)
	}
}

// validate checks a response, and its request if it was accepted, against the OpenAPI
// document.
func (d *testServer) validate(request *http.Request, response *http.Response, body []byte) {
	d.t.Helper()
	asked := request.Clone(context.Background())
	asked.URL.Path, asked.URL.RawPath = strings.TrimSuffix(asked.URL.Path, "/"), ""
	source, err := request.GetBody()
	d.must(err)
	sentBody, err := io.ReadAll(source)
	d.must(err)
	asked.Body = http.NoBody
	if len(bytes.TrimSpace(sentBody)) > 0 {
		asked.Body = io.NopCloser(bytes.NewReader(sentBody))
	}
	asked.Header.Set("Content-Type", "application/json")
	if asked.Body != http.NoBody && !json.Valid(sentBody) && response.StatusCode == http.StatusOK {
		asked.Header.Set("Content-Type", contentTypeYAML)
	}
	route, parameters, err := d.book.FindRoute(asked)
	if err != nil { // no such path or method
		var value any
		if err := json.Unmarshal(body, &value); err != nil {
			d.t.Errorf("%s %s: %v", request.Method, request.URL.Path, err)
		} else if err := d.doc.Components.Schemas["FailedAnswer"].Value.VisitJSON(value); err != nil {
			d.t.Errorf("%s %s: the answer is not as documented: %v", request.Method, request.URL.Path, err)
		}
		return
	}
	input := &openapi3filter.RequestValidationInput{Request: asked, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc}}
	if response.StatusCode == http.StatusOK {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
			d.t.Errorf("%s %s was accepted and is not documented: %v", request.Method, request.URL.Path, err)
		}
	}
	header := response.Header.Clone()
	if strings.HasSuffix(asked.URL.Path, ".yaml") {
		return // this is the document itself
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{RequestValidationInput: input,
		Status: response.StatusCode, Header: header, Body: io.NopCloser(bytes.NewReader(body))})
	if err != nil {
		d.t.Errorf("%s %s: the answer is not as documented: %v\n%s", request.Method, request.URL.Path, err, body)
	}
}
