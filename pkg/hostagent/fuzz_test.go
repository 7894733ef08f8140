package hostagent

import (
	"bytes"
	"path"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"
)

// FuzzPullSecret checks that a credential is given only to a registry whose host its entry names.
func FuzzPullSecret(f *testing.F) {
	f.Add([]byte(`{"auths":{"https://r.example/v2/team":{"username":"u","password":"p"},"*.r.example":{"auth":"dTpw"}}}`), "r.example/team/a")
	f.Add([]byte(`{"auths":{"q.example":{"username":"q","password":"p"},"r.example.org":{"username":"o","password":"p"}}}`), "r.example/a")
	f.Add([]byte(`{"auths":{"r.example:5000":{"username":"u","password":"p"}}}`), "r.example/a")
	f.Add([]byte(`{"auths":{"https://index.docker.io/v1/":{"username":"hub","password":"p"}}}`), "index.docker.io/library/busybox")
	f.Add([]byte(`{"auths":{"https://index.docker.io/v1/":{"username":"hub","password":"p"}}}`), "docker.io/library/busybox")
	f.Add([]byte(`{"auths":{"":{"username":"u"},"/":{"username":"u"},"http://":{"auth":"x"}}}`), "r.example/a")
	f.Add([]byte(`{"auths":{"r.example:":{"username":"u","password":"p"}}}`), "r.example/a")
	f.Add([]byte(`{"auths":{"u@r.example":{"username":"u"},"[a-z].example":{"username":"c"},"\\r.example":{"username":"d"}}}`), "r.example/a")
	f.Add([]byte(`{"auths":{"#.":{},"":{},"r.example":{"username":"u"}}}`), ":")
	f.Fuzz(func(t *testing.T, data []byte, image string) {
		repository, err := repositoryOf(image)
		if err != nil {
			return
		}
		secret := &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, Data: map[string][]byte{corev1.DockerConfigJsonKey: data}}
		all, err := keyedOf(secret)
		if err != nil {
			return
		}
		entries, err := entriesOf(secret)
		if err != nil {
			t.Fatal(err)
		}
		host, _, _ := strings.Cut(repository, "/")
		for _, k := range fitting(all, repository) {
			given := false
			for registry, entry := range entries {
				entry.Auth = ""
				given = given || entry == k.credential && (namesHost(registry, host) || host == hub && namesHost(registry, name.DefaultRegistry))
			}
			if !given {
				t.Errorf("%s receives a credential of %q", repository, data)
			}
		}
	})
}

// namesHost reports whether an entry has a host, or a pattern of it with as many labels.
func namesHost(registry, host string) bool {
	registry = strings.TrimPrefix(strings.TrimPrefix(registry, "https://"), "http://")
	registry, _, _ = strings.Cut(registry, "/")
	if at := strings.LastIndex(registry, "@"); at >= 0 {
		registry = registry[at+1:]
	}
	registry, _, _ = strings.Cut(registry, "?")
	registry = strings.TrimSuffix(registry, ":") // an empty port is no port, in URLs and to the kubelet
	if strings.ContainsAny(registry, `*[\%#`) {
		return strings.Count(registry, ".") == strings.Count(host, ".")
	}
	matched, _ := path.Match(registry, host)
	return matched || registry == host
}

// FuzzContainerdConfig checks that reading ends whatever a file imports, that a default is one
// that a file names, and that an error names the file.
func FuzzContainerdConfig(f *testing.F) {
	f.Add([]byte("version = 2\nimports = [\"/etc/containerd/conf.d/*.toml\"]\n[plugins.\"io.containerd.grpc.v1.cri\".containerd]\ndefault_runtime_name = \"runc\"\n"),
		[]byte("[plugins.\"io.containerd.cri.v1.runtime\".containerd]\ndefault_runtime_name = \"enflame\"\n"))
	f.Add([]byte("imports = [\"config.toml\", \"../containerd/*.toml\", \"../../../../etc/shadow\"]"), []byte("imports = [\"[\"]"))
	f.Add([]byte("plugins = 1"), []byte(""))
	f.Add([]byte("[plugins.cri.containerd]\ndefault_runtime_name = 3"), []byte("[plugins]\ncri = []"))
	f.Add([]byte("imports = [\"\", \"/\", \"*\", \"//x\", \".\"]"), []byte("\xff"))
	f.Fuzz(func(t *testing.T, main, dropIn []byte) {
		const file = "etc/containerd/config.toml"
		host := fstest.MapFS{file: {Data: main}, "etc/containerd/conf.d/a.toml": {Data: dropIn}}
		runtime, named, err := containerdDefault(host, file, "")
		if err != nil {
			if runtime != "" || named || !strings.Contains(err.Error(), "containerd") {
				t.Errorf("%q, %t with error %v", runtime, named, err)
			}
			return
		}
		if named != (runtime != "") {
			t.Errorf("%q is named: %t", runtime, named)
		}
		plain := !bytes.Contains(main, []byte(`\`)) && !bytes.Contains(dropIn, []byte(`\`)) && !strings.Contains(runtime, "\n")
		if plain && !strings.Contains(string(main)+string(dropIn), runtime) {
			t.Errorf("no file names %q", runtime)
		}
	})
}
