package nodes

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
)

// gcu runs kubectl gcu, which must succeed.
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

// grFile writes the current gr with changes to a file.
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
