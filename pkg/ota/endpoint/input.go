package endpoint

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/gorilla/mux"

	"github.com/topsops/gcu-operator/pkg/ota/request"
)

// maxWait bounds ?wait.
const maxWait = time.Minute

// name returns a part of the path. One that cannot be unescaped is returned as it is, and
// later refused as malformed.
func name(r *http.Request, part string) string {
	escaped := mux.Vars(r)[part]
	if unescaped, err := url.PathUnescape(escaped); err == nil {
		return unescaped
	}
	return escaped
}

// waitOf returns how long a request wants to wait, 0 if it does not or if the value is
// invalid.
func waitOf(r *http.Request) time.Duration {
	wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if err != nil || wait < time.Millisecond || wait > maxWait {
		return 0
	}
	return wait
}

// decodeBody decodes an optional JSON object. The body has been read, and is small.
func decodeBody(r *http.Request, into any) *request.Refusal {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return request.Refuse(request.ReasonMalformed, "The body is not the expected JSON object: %v.", err)
	}
	// More would call a closing brace the end of the body.
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return request.Refuse(request.ReasonMalformed, "The body has data after its JSON object.")
	}
	return nil
}

// isJSON reports whether the Content-Type of a request is JSON, or the request has no body.
func isJSON(r *http.Request) bool {
	given := r.Header.Get("Content-Type")
	if given == "" {
		return r.ContentLength == 0
	}
	kind, _, err := mime.ParseMediaType(given)
	return err == nil && kind == "application/json"
}
