package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/guide"
)

// run runs a line of the guide in a shell, with the manager's address, and compares its
// output with the guide's.
func (c *controlPlane) run(ctx context.Context, t *testing.T, line guide.Line) {
	t.Helper()
	if output := c.shell(ctx, t, line.Command); line.Missing(output) != "" {
		t.Errorf("%s: the output lacks %q:\n%s", line.Command, line.Missing(output), output)
	}
}

// shell runs a command and returns its output.
func (c *controlPlane) shell(ctx context.Context, t *testing.T, command string) string {
	t.Helper()
	output, err := exec.CommandContext(ctx, "sh", "-c", strings.Replace(command, "<node-ip>:32765", c.address, 1)).Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", command, err, output)
	}
	return string(output)
}

// blueprint writes a gr into the blueprint directory as gr.json.
func (c *controlPlane) blueprint(t *testing.T, gr *topsv1.GcuResource) {
	t.Helper()
	gr.APIVersion, gr.Kind = topsv1.GroupVersion.String(), topsv1.GcuResourceKind
	data, err := json.Marshal(gr)
	if err == nil {
		err = os.WriteFile(filepath.Join(c.blueprints, "gr.json"), data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The curl commands of the gcu-upgrade-manager guide: an upgrade in place is rolled
// out, one by recreation completes, and a foreground deletion returns when the gr is
// gone.
func TestTheRESTAPIDoesWhatTheGuidePrints(t *testing.T) {
	s, ctx := enter(t)
	d := s.plane
	const name, url = "enflame-gcu-resource", "http://<node-ip>:32765/gum/v1/gr/enflame-gcu-resource"
	gr := func(version string, gfd bool) *topsv1.GcuResource {
		o := &topsv1.GcuResource{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: topsv1.GcuResourceSpec{
			Exporter: &topsv1.BaseFields{Version: version, NodeSelector: s.selector()},
			Driver:   &topsv1.BaseFields{Repository: "artifact.enflame.cn/galaxy_docker_hub/gcu", NodeSelector: s.selector()}}}
		if gfd {
			o.Spec.GFD = &topsv1.BaseFields{NodeSelector: s.selector()}
		}
		return o
	}
	old := gr("v1", true)
	s.create(ctx, t, old)
	running := func(what, ready string, is func(*topsv1.GcuResource) bool) *topsv1.GcuResource {
		return s.shows(ctx, t, name, what, func(gr *topsv1.GcuResource) bool {
			return gr.Status.Phase == topsv1.PhaseRunning && gr.Status.ReadyResource == ready && gr.Status.ObservedGeneration == gr.Generation && is(gr)
		})
	}
	running("deployed", "3/3", func(*topsv1.GcuResource) bool { return true })
	d.run(ctx, t, guide.List)
	d.run(ctx, t, guide.Get)
	d.run(ctx, t, guide.Driver)

	pods := s.podsOf(ctx, t, "enflame-gcu-exporter")
	d.blueprint(t, gr("v2", true))
	d.run(ctx, t, guide.Put)
	running("upgraded in place", "3/3", func(gr *topsv1.GcuResource) bool {
		return gr.UID == old.UID && action(gr, topsv1.ActionUpgrade) == "success/success" && survivors(pods, s.podsOf(ctx, t, "enflame-gcu-exporter")) == 0
	})
	s.eventually(ctx, t, func() error {
		if got := d.shell(ctx, t, "curl "+url+"/rollout"); !strings.Contains(got, fmt.Sprintf(`"updated": %d`, stageNodes)) {
			return fmt.Errorf("got %s", got)
		}
		return nil
	})

	d.blueprint(t, gr("v3", false))
	d.run(ctx, t, guide.Recreate)
	running("recreated with the components of the blueprint", "2/2", func(gr *topsv1.GcuResource) bool {
		return gr.UID != old.UID && gr.Generation == 1 && gr.Spec.Exporter.Version == "v3" && gr.Spec.GFD == nil
	})

	d.run(ctx, t, guide.Foreground)
	d.run(ctx, t, guide.Gone)
	s.create(ctx, t, gr("v3", false))
	d.run(ctx, t, guide.Delete)
	s.eventually(ctx, t, func() error {
		var gr topsv1.GcuResource
		err := s.Client.Get(ctx, client.ObjectKey{Name: name}, &gr)
		if err == nil {
			return fmt.Errorf("gr %s is still there: %+v", name, gr.Status)
		}
		return client.IgnoreNotFound(err)
	})
	d.run(ctx, t, guide.Gone)
	log, err := os.ReadFile(filepath.Join(d.logs, "gcu-upgrade-manager.log"))
	if err != nil || !strings.Contains(string(log), `body="{\"file\": \"gr.json\"}"`) {
		t.Errorf("the log has no body of the upgrade (%v):\n%s", err, log)
	}
}
