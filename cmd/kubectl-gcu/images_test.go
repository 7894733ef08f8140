package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestImagesOfAFileNeedNoCluster lists those of the default gr, with the operator's image that the manifests of a checkout run, whatever git describe says.
func TestImagesOfAFileNeedNoCluster(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "missing"))
	defer func(before string) { version = before }(version)
	version = "v1.2.3-4-g5c0ecfc"
	var out bytes.Buffer
	root := newRoot(genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: os.Stderr})
	root.SetArgs([]string{"images", "-f", filepath.Join("..", "..", "examples", "gcu-resource.json")})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	const enflame, galaxy = "artifact.enflame.cn/enflame_docker_images/enflame/", "artifact.enflame.cn/galaxy_docker_hub/gcu/"
	want := []string{enflame + "gcu-exporter:latest", enflame + "gcu-operator:dev", enflame + "node-feature-discovery:v0.11.3",
		galaxy + "gcu-gfd:latest", galaxy + "gcu-plugin:latest", galaxy + "gcu-runtime:latest"}
	if diff := cmp.Diff(want, strings.Fields(out.String())); diff != "" {
		t.Error(diff)
	}
}

func TestThePluginKnowsTheOperatorsImage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "config", "manager", "deployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "image: "+operatorRepository+":"+operatorTag+"\n") {
		t.Errorf("config/manager does not run %s:%s", operatorRepository, operatorTag)
	}
}
