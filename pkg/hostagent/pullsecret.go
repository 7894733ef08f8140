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
	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
)

// This file matches the credentials of a pull secret to an image by the kubelet's rules
// (k8s.io/kubernetes/pkg/credentialprovider). go-containerregistry implements them too, in a
// package that imports every Kubernetes client: 16 MB of binary, a third of the agent's
// budget on an edge node.

// hub is Docker Hub in the names of images. Most pull secrets have its old name, which is
// name.DefaultRegistry.
const hub = "docker.io"

// keyed is a credential of a pull secret with the registry, or the part of one, that it is for.
type keyed struct {
	key        string
	credential authn.AuthConfig
}

// keyedOf returns the credentials of a secret. The error may contain a password.
func keyedOf(secret *corev1.Secret) ([]keyed, error) {
	entries, err := entriesOf(secret)
	if err != nil {
		return nil, err
	}
	var all []keyed
	for _, registry := range slices.Sorted(maps.Keys(entries)) {
		key, err := keyOfRegistry(registry)
		if err != nil {
			return nil, err
		}
		credential := entries[registry]
		credential.Auth = "" // already decoded into user and password
		all = append(all, keyed{key, credential})
	}
	return all, nil
}

// fitting returns the credentials for a repository, such as registry.example.com/team/image: the
// most specific ones first, the last in lexical order. Those of Docker Hub's old name count when
// there are no others.
func fitting(all []keyed, repository string) (fit []keyed) {
	for _, k := range all {
		if covers(k.key, repository) {
			fit = append(fit, k)
		}
	}
	if len(fit) == 0 && strings.HasPrefix(repository, hub+"/") {
		return slices.DeleteFunc(slices.Clone(all), func(k keyed) bool { return k.key != name.DefaultRegistry })
	}
	slices.SortStableFunc(fit, func(a, b keyed) int { return strings.Compare(b.key, a.key) })
	return fit
}

// repositoryOf returns the repository of an image as the kubelet compares it.
func repositoryOf(image string) (string, error) {
	reference, err := name.ParseReference(image)
	if err != nil {
		return "", err
	}
	registry := reference.Context().RegistryStr()
	if registry == name.DefaultRegistry {
		registry = hub
	}
	return registry + "/" + reference.Context().RepositoryStr(), nil
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
	hostName, port, _ := strings.Cut(host, ":")
	keyParts, parts := strings.Split(keyName, "."), strings.Split(hostName, ".")
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
