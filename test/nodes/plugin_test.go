package nodes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/test/harness"
)

// gcu is kubectl gcu, as a user types it; it must succeed.
func (s *stage) gcu(args ...string) string {
	s.t.Helper()
	output, err := s.tryGCU(args...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Logf("kubectl gcu %s\n%s", strings.Join(args, " "), output)
	return output
}

func (s *stage) tryGCU(args ...string) (string, error) {
	command := s.KubectlCommand(s.ctx, append([]string{"gcu"}, args...)...)
	command.Env = append(command.Env, "PATH="+s.Project.Path("bin")+":"+os.Getenv("PATH"))
	output, err := command.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl gcu %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return string(output), err
}

// grFile writes the gr as it is, changed, into a file of the user's.
func (s *stage) grFile(change func(*topsv1.GcuResourceSpec)) string {
	s.t.Helper()
	gr := s.gr()
	wanted := topsv1.GcuResource{Spec: gr.Spec}
	wanted.APIVersion, wanted.Kind, wanted.Name = topsv1.GroupVersion.String(), topsv1.GcuResourceKind, gr.Name
	change(&wanted.Spec)
	data, err := json.Marshal(wanted)
	check(s.t, err)
	file := filepath.Join(s.t.TempDir(), "gr.json")
	check(s.t, os.WriteFile(file, data, 0o600))
	return file
}

// withPlugin: a person upgrades the exporter with kubectl gcu, and is told before and
// afterwards what happens.
func (s *stage) withPlugin() {
	s.deploy("AdvancedRollingUpdate", "brisk")
	file := s.grFile(func(spec *topsv1.GcuResourceSpec) { spec.Exporter.Version = "2.0.0" })
	s.gcu("plan", "--filename", file)
	var plan struct {
		Nodes []struct{ Name string }
	}
	check(s.t, json.Unmarshal([]byte(s.gcu("plan", "--filename", file, "--output", "json")), &plan))
	left, err := harness.WatchDepartures(s.ctx, s.Cluster)
	check(s.t, err)
	observer := s.observe()
	s.gcu("upgrade", "--filename", file, "--wait", "--timeout", patience.String())
	for _, node := range allNodes {
		check(s.t, s.runs(exporterSet, node, "2.0.0"))
	}
	var planned, went []string
	for _, node := range plan.Nodes {
		planned = append(planned, node.Name+" "+exporterSet)
	}
	for _, d := range left.Take() {
		went = append(went, d.Node+" "+d.DaemonSet)
	}
	if len(planned) != len(allNodes) || !slices.Equal(planned, went) {
		s.t.Errorf("planned were %q, it was %q", planned, went)
	}
	if most := observer.Most(); most != 1 {
		s.t.Errorf("%d nodes were down at once", most)
	}
	if status := s.gcu("status"); !strings.Contains(status, grName+": Done") || !strings.Contains(status, "3 of 3 updated") {
		s.t.Error("the status does not say that it is done")
	}
	s.gcu("nodes")
	s.gcu("history")
	s.clear()
	s.nodesAreClean()
}
