package hostagent

import (
	"errors"
	"testing"
)

// What a registry wants other credentials for is left to the kubelet: not an image that is missing, whatever its name is, and not
// one that is missing for one of the credentials.
func TestIsUnauthorized(t *testing.T) {
	missing := errors.New(`failed to resolve reference "r.example.com/exporter:9": r.example.com/exporter:9: not found`)
	denied := errors.New(`failed to authorize: failed to fetch anonymous token: unexpected status from GET request to https://r.example.com/token: 401 Unauthorized`)
	for _, tt := range []struct {
		image string
		err   error
		want  bool
	}{
		{"r.example.com/exporter:9", denied, true},
		{"r.example.com/exporter:9", errors.Join(denied, denied), true},
		{"r.example.com/exporter:9", errors.Join(denied, missing), false},
		{"r.example.com/exporter:9", missing, false},
		{"exporter:9", errors.New("pull access denied for exporter, repository does not exist or may require 'docker login': denied: requested access to the resource is denied"), true},
		{"r.example.com/exporter:9", errors.New("server message: insufficient_scope: authorization failed"), true},
		{"r.example.com/edge/authentication-proxy:1.9", errors.New(`failed to pull and unpack image "r.example.com/edge/authentication-proxy:1.9": r.example.com/edge/authentication-proxy:1.9: not found`), false},
		{"r.example.com/unauthorized/agent:2", errors.New("Error response from daemon: manifest for r.example.com/unauthorized/agent:2 not found: manifest unknown"), false},
		{"unauthorized:2", errors.New("manifest for docker.io/library/unauthorized:2 not found"), false},
		{"r.example.com/exporter:9", errors.New("unexpected status from GET request to https://authentication.example.com/token: 503 Service Unavailable"), false},
	} {
		if got := isUnauthorized(tt.err, tt.image); got != tt.want {
			t.Errorf("%s: %v: %t, want %t", tt.image, tt.err, got, tt.want)
		}
	}
}
