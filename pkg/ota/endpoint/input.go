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

// name returns a part of the path. What cannot be unescaped is no name, and is
// refused as malformed like any other.
func name(r *http.Request, part string) string {
	escaped := mux.Vars(r)[part]
	if unescaped, err := url.PathUnescape(escaped); err == nil {
		return unescaped
	}
	return escaped
}

// waitOf returns the time that a request wants to wait, 0 for none or for one that is
// not good.
func waitOf(r *http.Request) time.Duration {
	wait, err := time.ParseDuration(r.URL.Query().Get("wait"))
	if err != nil || wait < time.Millisecond || wait > maxWait {
		return 0
	}
	return wait
}

// decodeBody reads a JSON object, or nothing. The body was read, and is small.
func decodeBody(r *http.Request, into any) *request.Refusal {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return request.Refuse(request.ReasonMalformed, "The body is not the JSON object that is wanted here: %v.", err)
	}
	if decoder.More() {
		return request.Refuse(request.ReasonMalformed, "The body has something behind its JSON object.")
	}
	return nil
}

// isJSON reports whether the body of a request is said to be JSON, or there is none.
func isJSON(r *http.Request) bool {
	given := r.Header.Get("Content-Type")
	if given == "" {
		return r.ContentLength == 0
	}
	kind, _, err := mime.ParseMediaType(given)
	return err == nil && kind == "application/json"
}
