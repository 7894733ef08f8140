package hostagent

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestCredentialsForAnImage(t *testing.T) {
	secret := func(auths string) corev1.Secret {
		return corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{` + auths + `}}`)}}
	}
	old := corev1.Secret{Type: corev1.SecretTypeDockercfg, Data: map[string][]byte{corev1.DockerConfigKey: []byte(`{"https://r.example":{"username":"old","password":"p"}}`)}}
	tests := map[string]struct {
		image   string
		secrets []corev1.Secret
		want    []string
	}{
		"without secrets":                                 {"r.example/a:1", nil, []string{""}},
		"of the registry":                                 {"r.example/a:1", []corev1.Secret{secret(`"r.example":{"username":"u","password":"p"}`)}, []string{"u"}},
		"as base64":                                       {"r.example/a:1", []corev1.Secret{secret(`"r.example":{"auth":"dTpw"}`)}, []string{"u"}},
		"of another registry":                             {"r.example/a:1", []corev1.Secret{secret(`"q.example":{"username":"u","password":"p"}`)}, []string{""}},
		"with another port":                               {"r.example:5000/a:1", []corev1.Secret{secret(`"r.example":{"username":"u","password":"p"}`)}, []string{""}},
		"of a part of the registry":                       {"r.example/team/a:1", []corev1.Secret{secret(`"r.example/team":{"username":"t","password":"p"},"r.example":{"username":"u","password":"p"}`)}, []string{"t", "u"}},
		"of the parts in several secrets":                 {"r.example/team/a:1", []corev1.Secret{secret(`"r.example":{"username":"u","password":"p"}`), secret(`"r.example/team":{"username":"t","password":"p"}`), old}, []string{"t", "u", "old"}},
		"with a wildcard":                                 {"eu.r.example/a:1", []corev1.Secret{secret(`"*.r.example":{"username":"u","password":"p"}`)}, []string{"u"}},
		"of Docker Hub, by its old name":                  {"busybox", []corev1.Secret{secret(`"https://index.docker.io/v1/":{"username":"hub","password":"p"}`)}, []string{"hub"}},
		"of Docker Hub":                                   {"docker.io/team/a:1", []corev1.Secret{secret(`"docker.io":{"username":"u","password":"p"}`)}, []string{"u"}},
		"of Docker Hub, of an image without a registry":   {"team/a:1", []corev1.Secret{secret(`"https://docker.io":{"username":"u","password":"p"}`)}, []string{"u"}},
		"of a part of Docker Hub":                         {"docker.io/team/a:1", []corev1.Secret{secret(`"docker.io/team":{"username":"t","password":"p"}`)}, []string{"t"}},
		"of Docker Hub, by its name before its old one":   {"team/a:1", []corev1.Secret{secret(`"index.docker.io":{"username":"hub","password":"p"}`), secret(`"docker.io":{"username":"u","password":"p"}`)}, []string{"u"}},
		"of Docker Hub, by its old name in the image too": {"index.docker.io/team/a:1", []corev1.Secret{secret(`"docker.io":{"username":"u","password":"p"}`)}, []string{"u"}},
		"several, in their order":                         {"r.example/a:1", []corev1.Secret{secret(`"r.example":{"username":"u","password":"p"}`), old, old}, []string{"u", "old"}},
		"with a wildcard for one part":                    {"a.b.r.example/a:1", []corev1.Secret{secret(`"*.r.example":{"username":"u","password":"p"}`)}, []string{""}},
		"of an API of the registry":                       {"r.example/team/a:1", []corev1.Secret{secret(`"https://r.example/v2/team":{"username":"u","password":"p"}`)}, []string{"u"}},
		"of another part":                                 {"r.example/other/a:1", []corev1.Secret{secret(`"r.example/team":{"username":"u","password":"p"}`)}, []string{""}},
		"of one registry written twice":                   {"r.example/a:1", []corev1.Secret{secret(`"https://r.example":{"username":"s","password":"p"},"http://r.example":{"username":"h","password":"p"}`)}, []string{"h", "s"}},
		"of another type of secret":                       {"r.example/a:1", []corev1.Secret{{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte("{")}}}, []string{""}},
		"by digest":                                       {"r.example/a@sha256:" + strings.Repeat("0", 64), []corev1.Secret{old}, []string{"old"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			found, err := credentialsFor(test.image, test.secrets)
			if err != nil {
				t.Fatal(err)
			}
			var users []string
			for _, credential := range found {
				users = append(users, credential.Username)
			}
			if diff := cmp.Diff(test.want, users); diff != "" {
				t.Errorf("users (-want +got):\n%s", diff)
			}
		})
	}
	for _, auths := range []string{`"r.example":{"password":"s3cret`, `"https://u:s3cret@r.example:x":{}`} {
		torn := secret(auths)
		torn.Name = "pull"
		if _, err := credentialsFor("r.example/a:1", []corev1.Secret{torn}); err == nil || !strings.Contains(err.Error(), "pull") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("error is %v, want one that names the secret and not what is in it", err)
		}
	}
}
