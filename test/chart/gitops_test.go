package chart

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/cel-go/cel"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	topsv1 "github.com/topsops/gcu-operator/api/v1"
	"github.com/topsops/gcu-operator/pkg/gcuresource/plan"
	"github.com/topsops/gcu-operator/pkg/gcuresource/state"
	"github.com/topsops/gcu-operator/pkg/gcuresource/status"
	"github.com/topsops/gcu-operator/test/world"
)

// TestGitOpsToolsSeeWhatIsTrue has grs described by the operator, and looks at them as Flux and Helm 4
// (kstatus) and Argo CD (its script in config/argocd) do.
func TestGitOpsToolsSeeWhatIsTrue(t *testing.T) {
	upgrading := func(o *world.World) { o.Run("driver"); o.NewTemplate("driver") }
	for _, c := range []struct {
		name, strategy string
		given          func(*world.World)
		kstatus        kstatus.Status
		argo           string
		// flux is what the expressions say, if that is not what kstatus says.
		flux kstatus.Status
	}{
		{"it was created, and no operator has seen it", "AdvancedRollingUpdate", nil, kstatus.InProgressStatus, "Progressing", ""},
		{"it is being deployed", "AdvancedRollingUpdate", func(o *world.World) { o.Create("driver") }, kstatus.InProgressStatus, "Progressing", ""},
		{"it runs", "AdvancedRollingUpdate", func(o *world.World) { o.Run("driver") }, kstatus.CurrentStatus, "Healthy", ""},
		{"its spec has changed since", "AdvancedRollingUpdate", func(o *world.World) { o.Run("driver") }, kstatus.InProgressStatus, "Progressing", ""},
		{"nodes are upgraded", "AdvancedRollingUpdate", upgrading, kstatus.InProgressStatus, "Progressing", ""},
		{"it is paused", "AdvancedRollingUpdate", func(o *world.World) {
			upgrading(o)
			o.Resource.Annotations[topsv1.AnnotationPaused] = "true"
		}, kstatus.InProgressStatus, "Suspended", ""},
		{"it is halted", "AdvancedRollingUpdate", func(o *world.World) {
			upgrading(o)
			why := &state.Failure{Reason: status.ReasonHalted, Message: "2 nodes failed"}
			o.Rollout = state.Rollout{Halt: why, Stalled: why}
		}, kstatus.FailedStatus, "Degraded", kstatus.FailedStatus},
		{"the last node has the newest pods, and is being verified", "AdvancedRollingUpdate", func(o *world.World) {
			o.Run("driver")
			o.Rollout.Unfinished = true
		}, kstatus.InProgressStatus, "Progressing", ""},
		{"nodes are pinned to the version of before", "AdvancedRollingUpdate", func(o *world.World) {
			upgrading(o)
			o.Rollout.Stalled = &state.Failure{Reason: topsv1.ReasonNodesPinned, Message: "1 node is pinned"}
		}, kstatus.FailedStatus, "Degraded", ""},
		{"nodes wait for the person at each", "OTA", upgrading, kstatus.CurrentStatus, "Healthy", kstatus.InProgressStatus},
		{"a node is offline", "AdvancedRollingUpdate", func(o *world.World) { o.Run("driver"); o.Off("node-1") }, kstatus.CurrentStatus, "Healthy", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			gr := world.NewGR(topsv1.GcuResourceSpec{Driver: &topsv1.BaseFields{}})
			gr.Generation = 1
			gr.Annotations[topsv1.AnnotationUpdateStrategy] = c.strategy
			obs := world.New(t, gr, 3)
			gr.Status.ObservedGeneration = -1 // the default of the CRD
			if c.given != nil {
				c.given(obs)
				gr = obs.Resource
				gr.Status = status.Describe(obs.Observation, plan.Decide(obs.Observation, world.Noon), world.Noon)
			}
			if c.name == "its spec has changed since" {
				gr.Generation++
			}
			seen := stored(t, gr)
			result, err := kstatus.Compute(&unstructured.Unstructured{Object: seen})
			check(t, err)
			if result.Status != c.kstatus {
				t.Errorf("kstatus says %s, want %s: %s", result.Status, c.kstatus, result.Message)
			}
			if got, want := fluxHealth(t, seen), cmp.Or(c.flux, c.kstatus); got != want {
				t.Errorf("Flux says %s, want %s", got, want)
			}
			if health, message := argoHealth(t, seen); health != c.argo || message == "" {
				t.Errorf("Argo CD says %q (%s), want %s", health, message, c.argo)
			}
		})
	}
}

// stored returns a gr as the API server has it.
func stored(t *testing.T, gr *topsv1.GcuResource) map[string]any {
	t.Helper()
	gr.APIVersion, gr.Kind = topsv1.GroupVersion.String(), topsv1.GcuResourceKind
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(gr)
	check(t, err)
	return object
}

// fluxHealth evaluates the expressions as Flux does: in this order, with the fields of the object as variables. An
// object for which none is true is in progress.
func fluxHealth(t *testing.T, object map[string]any) kstatus.Status {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "config", "flux", "health-checks.yaml"))
	check(t, err)
	var checks []struct {
		Kind                        string
		InProgress, Failed, Current string
	}
	check(t, yaml.Unmarshal(text, &checks))
	environment, err := cel.NewEnv(cel.Variable("metadata", cel.DynType), cel.Variable("status", cel.DynType))
	check(t, err)
	for _, e := range []struct {
		expression string
		status     kstatus.Status
	}{{checks[0].InProgress, kstatus.InProgressStatus}, {checks[0].Failed, kstatus.FailedStatus}, {checks[0].Current, kstatus.CurrentStatus}} {
		parsed, issues := environment.Compile(e.expression)
		check(t, issues.Err())
		program, err := environment.Program(parsed)
		check(t, err)
		result, _, err := program.Eval(map[string]any{"metadata": object["metadata"], "status": object["status"]})
		check(t, err)
		if result.Value() == true {
			return e.status
		}
	}
	return kstatus.InProgressStatus
}

// argoHealth runs the script as Argo CD does: with the object in obj, and without the libraries of Lua
// that reach outside.
func argoHealth(t *testing.T, object map[string]any) (health, message string) {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(root, "config", "argocd", "health.lua"))
	check(t, err)
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString} {
		l.Push(l.NewFunction(open))
		l.Call(0, 0)
	}
	l.SetGlobal("obj", toLua(l, object))
	check(t, l.DoString(string(script)))
	result, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returned %s", l.Get(-1))
	}
	return result.RawGetString("status").String(), result.RawGetString("message").String()
}

func toLua(l *lua.LState, value any) lua.LValue {
	switch v := value.(type) {
	case map[string]any:
		table := l.NewTable()
		for key, below := range v {
			table.RawSetString(key, toLua(l, below))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, below := range v {
			table.Append(toLua(l, below))
		}
		return table
	case string:
		return lua.LString(v)
	case int64:
		return lua.LNumber(v)
	case bool:
		return lua.LBool(v)
	}
	return lua.LNil
}
