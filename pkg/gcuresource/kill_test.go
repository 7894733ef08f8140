package gcuresource

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// course is the undisturbed course of a story.
type course struct {
	// before are the scenes before each turn, and turns the calls made in it.
	before []*scene
	turns  [][]call
	// states are the states before each turn, and the last one.
	states []map[string]string
	end    *memoryAPI
	played int
}

// undisturbed plays a story without faults.
func (st story) undisturbed(t *testing.T) *course {
	t.Helper()
	s := inMemory(t)
	if err := st.play(s); err != nil {
		t.Fatal(err)
	}
	c := &course{}
	made := 0
	note := func() {
		if len(c.before) > 0 {
			c.turns = append(c.turns, s.line.calls[made:])
		}
		made = len(s.line.calls)
		c.before = append(c.before, s.copied())
		c.states = append(c.states, s.api.(*memoryAPI).portrait())
	}
	if err := s.goOn(note); err != nil {
		t.Fatal(err)
	}
	c.turns = append(c.turns, s.line.calls[made:])
	c.end = s.api.(*memoryAPI)
	c.states = append(c.states, c.end.portrait())
	return c
}

// each plays the story again for every write or read, from the turn in which it was made. number
// counts within the turn. With go test -short only every third read is taken.
func (c *course) each(write bool, do func(what string, s *scene, number int)) {
	for i, turn := range c.turns {
		n := 0
		for _, made := range turn {
			if made.write != write {
				continue
			}
			if n++; !write && testing.Short() && n%3 != 0 {
				continue
			}
			do(fmt.Sprintf("turn %d, %s", i+1, made.what), c.before[i].copied(), n)
		}
	}
}

// writes returns the number of writes of the story.
func (c *course) writes() int {
	n := 0
	c.each(true, func(string, *scene, int) { n++ })
	return n
}

// rejoins continues until the state equals that before some turn of the undisturbed course: from
// there on both are the same. By then the operator has read everything, so its memory is the same
// too. A story that does not return to its course, and every tenth that does, is played to the
// end.
func (c *course) rejoins(t *testing.T, what string, s *scene) {
	t.Helper()
	c.played++
	for range 3 {
		if c.played%10 == 0 {
			break
		}
		if err := errors.Join(s.turn(), s.rest.step()); err != nil {
			t.Errorf("%s: %v", what, err)
			return
		}
		now := s.api.(*memoryAPI).portrait()
		if slices.ContainsFunc(c.states, func(state map[string]string) bool { return maps.Equal(state, now) }) {
			c.madeOnce(t, what, s)
			return
		}
	}
	c.arrives(t, what, s)
}

// madeOnce fails if objects were created again.
func (c *course) madeOnce(t *testing.T, what string, s *scene) {
	t.Helper()
	if again := s.api.(*memoryAPI).remade(c.end); len(again) > 0 {
		t.Errorf("%s: created again: %v", what, again)
	}
}

// arrives continues to the end, which must be that of the undisturbed course.
func (c *course) arrives(t *testing.T, what string, s *scene) {
	t.Helper()
	if err := s.goOn(nil); err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	api := s.api.(*memoryAPI)
	if diff := cmp.Diff(c.end.portrait(), api.portrait()); diff != "" {
		t.Errorf("%s: the end is another (-undisturbed +got):\n%s", what, diff)
	}
	c.madeOnce(t, what, s)
}

// ways are how an operator may die, or take a successful write for a failed one.
var ways = []struct {
	name  string
	fault func(n int) func(*connection)
	then  func(*scene) error
}{
	{"killed, and started again at once", killedAfter, func(s *scene) error { s.restart(); return nil }},
	{"killed, and away while the cluster goes on", killedAfter, func(s *scene) error { s.restart(); return s.rest.step() }},
	{"not answered", answerLost, func(s *scene) error { s.line.after = nil; return s.rest.step() }},
}

func TestAnOperatorThatDiesBetweenAnyTwoWritesArrives(t *testing.T) {
	for _, st := range stories {
		t.Run(st.name, func(t *testing.T) {
			t.Parallel()
			c := st.undisturbed(t)
			if writes := c.writes(); writes < 10 {
				t.Errorf("the story has only %d writes", writes)
			}
			for _, way := range ways {
				c.each(true, func(what string, s *scene, n int) {
					way.fault(n)(s.line)
					if err := s.turn(); err == nil {
						t.Errorf("%s after %s: nothing happened", way.name, what)
					}
					if err := way.then(s); err != nil {
						t.Fatal(err)
					}
					c.rejoins(t, way.name+" after "+what, s)
				})
			}
		})
	}
}
