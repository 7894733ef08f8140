package kwok

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

type stage struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Delay struct {
			DurationMilliseconds, JitterDurationMilliseconds int
		}
		Selector struct {
			MatchExpressions []struct {
				Key, Operator string
				Values        []string
			}
		}
	}
}

func parse(t *testing.T, timing Timing) map[string]stage {
	t.Helper()
	data, err := Config(timing)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "[[") || strings.Contains(string(data), "<no value>") {
		t.Errorf("a template value is missing:\n%s", data)
	}
	stages := map[string]stage{}
	for _, document := range strings.Split(string(data), "\n---\n")[1:] {
		var s stage
		if err := yaml.Unmarshal([]byte(document), &s); err != nil {
			t.Fatalf("parsing %s: %v", document, err)
		}
		if s.Kind == "Stage" {
			stages[s.Metadata.Name] = s
		}
	}
	return stages
}

func TestConfigContainsTheTiming(t *testing.T) {
	stages := parse(t, Timing{PodReadyDelay: 2 * time.Second, PodReadyJitter: 3 * time.Second, PodDeleteDelay: 400 * time.Millisecond})
	for _, name := range []string{"pod-ready", "pod-never-ready", "pod-crash"} {
		delay := stages[name].Spec.Delay
		// kwok's jitter is the upper end of the delay.
		if delay.DurationMilliseconds != 2000 || delay.JitterDurationMilliseconds != 5000 {
			t.Errorf("%s: got delay %+v, want 2000 to 5000 ms", name, delay)
		}
	}
	if got := stages["pod-delete"].Spec.Delay.DurationMilliseconds; got != 400 {
		t.Errorf("pod-delete: got delay %d ms, want 400", got)
	}
}

// TestStagesOfPodsExcludeEachOther finds for every pair of stages a key with opposite
// requirements.
func TestStagesOfPodsExcludeEachOther(t *testing.T) {
	stages := parse(t, Timing{})
	var names []string
	for name := range stages {
		names = append(names, name)
	}
	pairs := 0
	for i, a := range names {
		for _, b := range names[i+1:] {
			if a[:4] != b[:4] {
				continue // one of nodes, one of pods
			}
			pairs++
			if !exclusive(stages[a], stages[b]) {
				t.Errorf("a pod or node can match both %s and %s", a, b)
			}
		}
	}
	if pairs < 20 {
		t.Errorf("only %d pairs were compared", pairs)
	}
}

func exclusive(a, b stage) bool {
	for _, x := range a.Spec.Selector.MatchExpressions {
		for _, y := range b.Spec.Selector.MatchExpressions {
			if x.Key != y.Key {
				continue
			}
			switch x.Operator + " " + y.Operator {
			case "Exists DoesNotExist", "DoesNotExist Exists":
				return true
			case "In NotIn":
				if subset(x.Values, y.Values) {
					return true
				}
			case "NotIn In":
				if subset(y.Values, x.Values) {
					return true
				}
			case "In In":
				if !overlap(x.Values, y.Values) {
					return true
				}
			}
		}
	}
	return false
}

func subset(a, b []string) bool {
	for _, v := range a {
		if !overlap([]string{v}, b) {
			return false
		}
	}
	return true
}

func overlap(a, b []string) bool {
	for _, v := range a {
		for _, w := range b {
			if v == w {
				return true
			}
		}
	}
	return false
}
