package kubeconfig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

// TestTheFileComesBeforeTheEnvironmentAndTheHome has three files, and takes them away one by one.
func TestTheFileComesBeforeTheEnvironmentAndTheHome(t *testing.T) {
	directory := t.TempDir()
	write := func(name, host string) string {
		path := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Config", "current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c"}}],
			"clusters": [{"name": "c", "cluster": {"server": "https://%s"}}]}`, host)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	flag, environment := write("flag", "flag.test"), write("environment", "environment.test")
	home := write("home/.kube/config", "home.test")
	missing := filepath.Join(directory, "missing")

	before := clientcmd.RecommendedHomeFile
	t.Cleanup(func() { clientcmd.RecommendedHomeFile = before })
	for _, c := range []struct{ name, flag, environment, home, host, refused string }{
		{"all three", flag, environment, home, "https://flag.test", ""},
		{"no flag", "", environment, home, "https://environment.test", ""},
		{"the first of the environment that is there", "", missing + ":" + environment, home, "https://environment.test", ""},
		{"only the home", "", "", home, "https://home.test", ""},
		{"a flag that is wrong is not passed over", missing, environment, home, "", "reading --kubeconfig " + missing},
		{"nothing", "", "", "", "", "name a file with --kubeconfig or KUBECONFIG"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("KUBERNETES_SERVICE_HOST", "")
			t.Setenv("KUBECONFIG", c.environment)
			clientcmd.RecommendedHomeFile = c.home // client-go reads HOME when it starts
			config, err := Load(c.flag)
			switch {
			case c.refused == "" && (err != nil || config.Host != c.host):
				t.Errorf("got %v, %v, want %s", config, err, c.host)
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("got %v, want %q", err, c.refused)
			}
		})
	}
}
