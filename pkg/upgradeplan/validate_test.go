package upgradeplan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBookValidateNamesTheFault(t *testing.T) {
	cases := []struct {
		name   string
		change func(*LogicBook)
		want   string
	}{
		{"an action without a name", func(b *LogicBook) { b.Actions[0].Name = "" }, "the action has no name"},
		{"an action that could not be written", func(b *LogicBook) { b.Actions[0].Name = "up_rpm" }, `action "up_rpm" may have`},
		{"an action twice", func(b *LogicBook) { b.Actions[1].Name = "dispatch" }, "action dispatch appears twice"},
		{"an unknown groupBy", func(b *LogicBook) { b.Actions[0].GroupBy = "node" }, `action dispatch: groupBy "node" is neither`},
		{"an unknown undo", func(b *LogicBook) { b.Actions[0].Inverse = "recall" }, `action dispatch: its undo "recall" is not an action`},
		{"an action that undoes itself", func(b *LogicBook) { b.Actions[0].Inverse = "dispatch" }, "action dispatch undoes itself"},
		{"a target without a name", func(b *LogicBook) { b.Targets[0].Name = "" }, "the target has no name"},
		{"a target twice", func(b *LogicBook) { b.Targets[1].Name = "X" }, "target X appears twice"},
		{"a component without a disruption", func(b *LogicBook) { b.Targets[0].Disruption = "" }, `target X: disruption "" is none of`},
		{"a part of the node with a disruption", func(b *LogicBook) { b.Targets[0].OfNode = true }, "target X: a target of the node has no disruption"},
		{"a need without actions", func(b *LogicBook) { b.Targets[0].Needs = []Need{{}} }, "target X: a need has no actions"},
		{"a need of an unknown action", func(b *LogicBook) { b.Targets[0].Needs = []Need{{Actions: []string{"halt"}}} }, `target X: needs "halt", which is not an action`},
		{"a need after an unknown component", func(b *LogicBook) { b.Targets[0].Needs[0].Changed = []string{"Q"} }, `target X: a need names "Q", which is not a component`},
		{"a need of an unknown disruption", func(b *LogicBook) { b.Targets[0].Needs[0].Disruption = "Boom" }, `target X: disruption "Boom" of a need is none of`},
		{"a step of an unknown action", func(b *LogicBook) { b.Steps[2].Action = "halt" }, `step 3: "halt" is not an action`},
		{"a step of an unknown target", func(b *LogicBook) { b.Steps[2].Targets = []string{"Q"} }, `step 3: "Q" is not a target`},
		{"a step for nobody", func(b *LogicBook) { b.Steps = append(b.Steps, Step{Action: "start"}) }, "step 8: no target needs start"},
		{"a step for a target that does not need it", func(b *LogicBook) {
			b.Targets[1].Needs = []Need{{Actions: []string{"dispatch", "check", "uprpm", "start"}}}
		}, "step 4: target Y does not need stop"},
		{"a need that has no step", func(b *LogicBook) { b.Steps = b.Steps[:6] }, "start of target X is in 0 steps instead of one"},
		{"a need that has two steps", func(b *LogicBook) { b.Steps[3].Targets = []string{"X", "Y"} }, "stop of target X is in 2 steps instead of one"},
		{"an unknown place of the control plane", func(b *LogicBook) { b.ControlPlane = "first" }, `controlPlane "first" is none of`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			book := exampleBook()
			// The two targets of the example share their needs.
			book.Targets[1].Needs = []Need{{Actions: book.Targets[0].Needs[0].Actions}}
			c.change(&book)
			if err := book.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
			for what, f := range map[string]func() error{
				"Generate": func() error { _, err := Generate(book, nil); return err },
				"Arrange":  func() error { _, err := Arrange(book, nil, nil); return err },
				"Plan":     func() error { _, err := Plan(book, nil, 0); return err },
			} {
				if f() == nil {
					t.Errorf("%s takes the book", what)
				}
			}
		})
	}
}

func TestEveryFaultOfABookIsNamed(t *testing.T) {
	book := exampleBook()
	book.Actions[0].GroupBy = "node"
	book.ControlPlane = "Middle"
	err := book.Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("got %v", err)
	}
}

func TestABookIsReadBackFromItsJSON(t *testing.T) {
	text, err := json.Marshal(DefaultBook())
	if err != nil {
		t.Fatal(err)
	}
	var got LogicBook
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(DefaultBook(), got); diff != "" {
		t.Error(diff)
	}
}
