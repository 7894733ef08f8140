package hostagent

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	corev1 "k8s.io/api/core/v1"
)

// This file matches the credentials of a pull secret to an image by the kubelet's rules
// (k8s.io/kubernetes/pkg/credentialprovider). go-containerregistry implements them too, in a
// package that imports every Kubernetes client: 16 MB of binary, a third of the agent's
// budget on an edge node.

// credentialIn returns the credential of a secret for a repository, such as
// registry.example.com/team/image; false when none matches. The error may contain a password.
func credentialIn(secret *corev1.Secret, repository string) (credential authn.AuthConfig, fits bool, err error) {
	entries, err := entriesOf(secret)
	if err != nil {
		return authn.AuthConfig{}, false, err
	}
	keys := map[string]authn.AuthConfig{}
	for _, registry := range slices.Sorted(maps.Keys(entries)) {
		key, err := keyOfRegistry(registry)
		if err != nil {
			return authn.AuthConfig{}, false, err
		}
		if _, twice := keys[key]; !twice {
			keys[key] = entries[registry]
		}
	}
	best := ""
	for key := range keys {
		// The most specific key wins: the last in lexical order.
		if covers(key, repository) && key > best {
			best = key
		}
	}
	if best == "" {
		return authn.AuthConfig{}, false, nil
	}
	credential = keys[best]
	credential.Auth = "" // already decoded into user and password
	return credential, true, nil
}

// entriesOf returns the credentials of a secret by registry; none for other secret types.
func entriesOf(secret *corev1.Secret) (map[string]authn.AuthConfig, error) {
	switch secret.Type {
	case corev1.SecretTypeDockerConfigJson:
		var config struct {
			Auths map[string]authn.AuthConfig `json:"auths"`
		}
		data := secret.Data[corev1.DockerConfigJsonKey]
		if len(data) == 0 {
			return nil, nil
		}
		err := json.Unmarshal(data, &config)
		return config.Auths, err
	case corev1.SecretTypeDockercfg:
		var auths map[string]authn.AuthConfig
		data := secret.Data[corev1.DockerConfigKey]
		if len(data) == 0 {
			return nil, nil
		}
		err := json.Unmarshal(data, &auths)
		return auths, err
	}
	return nil, nil
}

// keyOfRegistry returns a registry of a pull secret without its scheme, and without a docker
// API version that stands for the whole host.
func keyOfRegistry(registry string) (string, error) {
	if !strings.HasPrefix(registry, "https://") && !strings.HasPrefix(registry, "http://") {
		registry = "https://" + registry
	}
	parsed, err := url.Parse(registry)
	if err != nil {
		return "", fmt.Errorf("entry %q: %w", registry, err)
	}
	at := parsed.Path
	if strings.HasPrefix(at, "/v1/") || strings.HasPrefix(at, "/v2/") {
		at = at[len("/v1"):]
	}
	if at == "/" {
		at = ""
	}
	return parsed.Host + at, nil
}

// covers reports whether a key matches a repository: the same port, a host that matches label
// by label, with wildcards, and a path with the key's path as prefix.
func covers(key, repository string) bool {
	keyHost, keyPath, _ := strings.Cut(key, "/")
	host, at, _ := strings.Cut(repository, "/")
	keyName, keyPort, _ := strings.Cut(keyHost, ":")
	name, port, _ := strings.Cut(host, ":")
	keyParts, parts := strings.Split(keyName, "."), strings.Split(name, ".")
	if keyPort != port || len(keyParts) != len(parts) || !strings.HasPrefix(at, keyPath) {
		return false
	}
	for i := range parts {
		if matched, err := path.Match(keyParts[i], parts[i]); err != nil || !matched {
			return false
		}
	}
	return true
}
